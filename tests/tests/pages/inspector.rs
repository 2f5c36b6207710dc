//! The inspector.

use std::time::Duration;

use axum::Router;
use http::StatusCode;
use lock_core::error::LossReason;
use lock_core::memory::Memory;
use lock_core::{Key, LockClient, LockGuard};
use lock_tower::inspect;
use tests::browser::{Browser, Page};
use tests::redis::RedisServer;
use tests::wait::{eventually, within};
use tokio::task::JoinHandle;

use crate::support::{Site, fits, picture};

fn app(locks: &LockClient) -> Router {
    inspect::router(locks.clone(), |_| Ok::<_, StatusCode>(()))
        .refresh(Duration::from_millis(100))
        .allow_force_release(|(), _| true)
        .into_router()
}

/// Texts that may be in a key, an owner or a name, and must stay text.
const HOSTILE: [&str; 6] = [
    "</script><img src=x onerror=alert(1)>",
    "<script>alert(2)</script>",
    "\"'><svg/onload=alert(3)>",
    "javascript:alert(4)",
    "${alert(5)}{{alert(6)}}",
    "__proto__",
];

/// Waits for `key` in a task of its own.
fn waiter(locks: &LockClient, key: &str) -> JoinHandle<LockGuard> {
    let acquire = locks.lock(key).wait(Duration::from_secs(600)).acquire();
    tokio::spawn(async move { acquire.await.expect("its turn") })
}

/// The row of a key, as JavaScript.
fn row(key: &str) -> String {
    let key = serde_json::to_string(key).expect("a text");
    format!("[...document.querySelectorAll('#keys tr')].find(row => row.dataset.key === {key})")
}

async fn shows(page: &Page, key: &str, text: &str) {
    let found = format!("{}?.innerText.includes({text:?})", row(key));
    page.until(&format!("the row of {key} says {text}"), &found).await;
}

#[tokio::test]
async fn a_held_lock_and_its_waiters_are_shown_and_go_when_they_are_gone() {
    let locks = LockClient::memory();
    let site = Site::serve(app(&locks)).await;
    let browser = Browser::start().await;
    let page = browser.open(&site.url("/locks")).await;
    page.until("it is empty", "!document.querySelector('#none').hidden").await;
    let guard = locks.lock("order:42").await.unwrap();
    shows(&page, "order:42", "held").await;
    shows(&page, "order:42", &guard.token().to_string()).await;
    let waiters = [waiter(&locks, "order:42"), waiter(&locks, "order:42")];
    let count = format!("{}?.cells[2].textContent === '2'", row("order:42"));
    page.until("both waiters are counted", &count).await;
    page.until(
        "they are summed up",
        "document.querySelector('[data-stat=waiters]').textContent === '2'",
    )
    .await;

    guard.release().await.unwrap();
    for waiter in waiters {
        let guard = within("a turn", waiter).await.unwrap();
        shows(&page, "order:42", &guard.token().to_string()).await;
        guard.release().await.unwrap();
    }
    page.until("the key is gone", "document.querySelectorAll('#keys tr').length === 0").await;
    page.has_no_problems();
}

#[tokio::test]
async fn a_key_that_is_opened_shows_who_holds_it_in_another_process() {
    let store = Memory::new();
    let locks = LockClient::with_backend(store.clone());
    let elsewhere = LockClient::with_backend(store);
    let site = Site::serve(app(&locks)).await;
    let browser = Browser::start().await;
    let guard = elsewhere.lock("order:42").await.unwrap();
    let waiting = waiter(&locks, "order:42");
    let page = browser.open(&site.url("/locks")).await;
    shows(&page, "order:42", "waiting").await;
    page.click("#keys button").await;
    let holder = locks.inspect("order:42").await.unwrap().holders.pop().unwrap();
    page.until(
        "the holder's claim",
        &format!("document.body.innerText.includes('{}')", holder.claim),
    )
    .await;
    page.until("the line", "document.querySelector('.detail').innerText.includes('1 in line')")
        .await;
    drop(guard);
    within("its turn", waiting).await.unwrap().release().await.unwrap();
    page.has_no_problems();
}

#[tokio::test]
async fn the_keys_of_all_processes_are_shown_with_who_holds_each() {
    let store = Memory::new();
    let locks = LockClient::with_backend(store.clone());
    let named = LockClient::builder_with(store).label("checkout@web-3");
    let elsewhere = named.connect().await.unwrap();
    let site = Site::serve(app(&locks)).await;
    let browser = Browser::start().await;
    let far = elsewhere.lock("far").name("pay").await.unwrap();
    let near = locks.lock("near").await.unwrap();
    let waiting = waiter(&locks, "far");
    let page = browser.open(&site.url("/locks")).await;
    shows(&page, "far", "waiting").await;
    presses(&page, "a").await;
    shows(&page, "far", "checkout@web-3 name=pay").await;
    shows(&page, "near", "held").await;
    lists(&page, "far,near").await;
    page.until("its waiter", &format!("{}.cells[2].textContent === '1'", row("far"))).await;
    page.click("tr[data-key=far] button").await;
    page.until("its line", "document.querySelector('.detail').innerText.includes('1 in line')")
        .await;
    near.release().await.unwrap();
    lists(&page, "far").await;
    // Of this process alone again.
    presses(&page, "a").await;
    page.until("nobody holds it here", &format!("!{}.innerText.includes('pay')", row("far"))).await;
    far.release().await.unwrap();
    within("its turn", waiting).await.unwrap().release().await.unwrap();
    page.has_no_problems();
}

/// The keys that the page lists, in its order, as JavaScript.
const LISTED: &str =
    "[...document.querySelectorAll('#keys tr[data-key]')].map(row => row.dataset.key).join()";

async fn lists(page: &Page, keys: &str) {
    page.until(&format!("it lists {keys}"), &format!("{LISTED} === {keys:?}")).await;
}

async fn sorts_by(page: &Page, what: &str) {
    let sort = format!(
        "document.querySelector('#sort').value = {what:?}, \
         document.querySelector('#sort').dispatchEvent(new Event('change'))"
    );
    page.js(&sort).await;
}

/// Presses a key of the keyboard where the focus is.
async fn presses(page: &Page, key: &str) {
    let press = format!(
        "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {{ key: {key:?}, bubbles: true }}))"
    );
    page.js(&press).await;
}

#[tokio::test]
async fn keys_are_sorted_and_the_keyboard_goes_to_each_of_them() {
    let locks = LockClient::memory();
    let site = Site::serve(app(&locks)).await;
    let browser = Browser::start().await;
    let page = browser.open(&site.url("/locks")).await;
    let mut guards = Vec::new();
    for (key, lease) in [("b", 60), ("c", 30), ("a", 90)] {
        guards.push(locks.lock(key).lease(Duration::from_secs(lease)).await.unwrap());
    }
    let waiting = waiter(&locks, "c");
    page.until("its waiter", &format!("{}?.cells[2].textContent === '1'", row("c"))).await;
    for (by, keys) in [("key", "a,b,c"), ("held", "b,c,a"), ("lease", "c,b,a")] {
        sorts_by(&page, by).await;
        lists(&page, keys).await;
    }
    let is_on =
        |key: &str| format!("document.activeElement.closest('#keys tr')?.dataset.key === {key:?}");
    for (pressed, key) in [("j", "c"), ("j", "b"), ("j", "a"), ("j", "a"), ("k", "b")] {
        presses(&page, pressed).await;
        page.until(&format!("it is on {key}"), &is_on(key)).await;
    }
    // A row that is moved keeps the focus.
    sorts_by(&page, "key").await;
    lists(&page, "a,b,c").await;
    assert_eq!(page.js(&is_on("b")).await, true);
    page.js("document.activeElement.click()").await;
    page.until("its holder", "document.querySelector('.detail code')").await;
    presses(&page, "Escape").await;
    assert_eq!(page.js("document.querySelector('.detail')").await, serde_json::Value::Null);
    assert_eq!(page.js(&is_on("b")).await, true);
    presses(&page, "/").await;
    assert_eq!(page.js("document.activeElement.id").await, "filter");
    guards.clear();
    within("its turn", waiting).await.unwrap().release().await.unwrap();
    page.has_no_problems();
}

#[tokio::test]
async fn a_page_that_is_paused_asks_for_nothing_and_shows_the_news_when_it_goes_on() {
    let locks = LockClient::memory();
    let site = Site::serve(app(&locks)).await;
    let browser = Browser::start().await;
    let page = browser.open(&site.url("/locks")).await;
    let first = locks.lock("first").await.unwrap();
    shows(&page, "first", "held").await;
    presses(&page, "p").await;
    assert_eq!(page.text("#state").await, "paused");
    assert_eq!(page.js("source").await, serde_json::Value::Null, "it has no events any more");
    first.release().await.unwrap();
    let _second = locks.lock("second").await.unwrap();
    assert_eq!(page.js(LISTED).await, "first");
    page.click("#pause").await;
    lists(&page, "second").await;
    page.until("it is live", "document.querySelector('#state').textContent === 'live'").await;
    page.has_no_problems();
}

#[tokio::test]
async fn a_key_is_taken_away_by_two_clicks_and_not_by_one() {
    let locks = LockClient::memory();
    let site = Site::serve(app(&locks)).await;
    let browser = Browser::start().await;
    let guard = locks.lock("order:42").await.unwrap();
    let next = waiter(&locks, "order:42");
    let page = browser.open(&site.url("/locks")).await;
    page.click("#keys button").await;
    page.click(".detail .danger").await;
    page.click("#confirm-no").await;
    page.until("the question is gone", "!document.querySelector('#confirm').open").await;
    assert!(guard.is_held());
    page.click(".detail .danger").await;
    assert_eq!(page.text("#confirm-key").await, "order:42");
    page.click("#confirm-yes").await;
    assert_eq!(within("the loss", guard.lost()).await.reason(), LossReason::Taken);
    let next = within("the hand-off", next).await.unwrap();
    shows(&page, "order:42", &next.token().to_string()).await;
    page.until(
        "it is told",
        "document.querySelector('#state').textContent.includes('was taken away')",
    )
    .await;
    assert!(next.is_held());
    page.has_no_problems();
}

#[tokio::test]
async fn hostile_keys_and_owners_stay_text() {
    let server = RedisServer::start();
    let locks = LockClient::connect(&server.url()).await.unwrap();
    let site = Site::serve(app(&locks)).await;
    let browser = Browser::start().await;
    let page = browser.open(&site.url("/locks")).await;
    let mut guards = Vec::new();
    for text in HOSTILE {
        let key = Key::from_segments([text]).unwrap();
        guards.push(locks.lock(key.clone()).await.unwrap());
        shows(&page, key.as_str(), key.as_str()).await;
    }
    page.until(
        "all rows",
        &format!("document.querySelectorAll('#keys tr').length === {}", HOSTILE.len()),
    )
    .await;
    for text in HOSTILE {
        let key = Key::from_segments([text]).unwrap();
        // As a string of CSS; the page puts its rows in order anew with each event.
        let row = format!("tr[data-key={:?}]", key.as_str());
        page.click(&format!("{row} button[aria-expanded=false]")).await;
        page.until("its holder", "document.querySelector('.detail code')").await;
        page.click("#keys .detail .danger").await;
        page.click("#confirm-no").await;
        page.click(&format!("{row} button[aria-expanded=true]")).await;
        page.until("nothing is shown of it", "!document.querySelector('.detail')").await;
    }
    // A client of another library writes what it likes.
    let foreign = "lock:{foreign}";
    server.command::<()>(&["SET", foreign, HOSTILE[0]]);
    let waiting = waiter(&locks, "foreign");
    shows(&page, "foreign", "waiting").await;
    page.click("tr[data-key=foreign] button").await;
    page.until(
        "its owner",
        "document.querySelector('.detail code')?.textContent.includes('onerror')",
    )
    .await;
    server.command::<u64>(&["DEL", foreign]);
    within("its turn", waiting).await.unwrap().release().await.unwrap();
    let made = page.js("document.querySelectorAll('img, svg, script:not([src])').length").await;
    assert_eq!(made, 0, "a key has become markup");
    page.has_no_problems();
}

#[tokio::test]
async fn the_page_fits_a_phone_and_has_its_picture_taken() {
    let store = Memory::new();
    let locks = LockClient::with_backend(store.clone());
    let elsewhere = LockClient::with_backend(store);
    let site = Site::serve(app(&locks)).await;
    let browser = Browser::start().await;
    let mut guards = Vec::new();
    for key in ["order:42", "order:1138", "account:7:payout", "nightly:report"] {
        guards.push(locks.lock(key).lease(Duration::from_secs(30)).await.unwrap());
    }
    let _far = elsewhere.lock("buy:sneaker").await.unwrap();
    let mut waiters: Vec<_> = (0..7).map(|_| waiter(&locks, "buy:sneaker")).collect();
    waiters.extend((0..3).map(|_| waiter(&locks, "order:42")));
    eventually("all wait", || locks.stats().waiters == 10).await;
    let page = browser.open(&site.url("/locks")).await;
    page.prefer_dark(false).await;
    shows(&page, "order:42", "held").await;
    page.click("tr[data-key='buy:sneaker'] button").await;
    page.until("its line", "document.querySelector('.detail li')").await;
    page.js("scrollTo(0, 0)").await;
    page.resize(1100, 620).await;
    picture(&page, "inspector.png").await;
    guards.push(locks.lock("k".repeat(500)).await.unwrap());
    shows(&page, &"k".repeat(500), "held").await;
    for of_all in [false, true] {
        if of_all {
            presses(&page, "a").await;
            shows(&page, "buy:sneaker", "host=").await;
        }
        for width in [1280, 768, 390, 320] {
            fits(&page, width).await;
        }
    }
    page.resize(1100, 620).await;
    picture(&page, "inspector-all.png").await;
    page.has_no_problems();
    for waiter in waiters {
        waiter.abort();
    }
}

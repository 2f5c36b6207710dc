//! The flash sale: the program, its page, and what a rush shows.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tests::browser::{Browser, Page};
use tests::mariadb::MariaDbServer;
use tests::postgres::PostgresServer;
use tests::redis::RedisServer;

use crate::support::{fits, picture};

/// The program, which ends with this.
struct Shop {
    process: Child,
    url: String,
    // A killed program does not remove its database.
    _temporary: TempDir,
}

impl Shop {
    fn open(arguments: &[&str]) -> Self {
        // Built by `cargo test --workspace`, beside the tests.
        let mut path: PathBuf = std::env::current_exe().expect("a test has a path");
        path.pop();
        path.pop();
        path.push("flash-sale");
        assert!(path.exists(), "no {}: run `cargo build -p examples` first", path.display());
        let temporary = tempfile::tempdir().expect("a writable folder");
        let mut process = Command::new(path)
            .args(["--page", "127.0.0.1:0"])
            .args(arguments)
            .env("TMPDIR", temporary.path())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the flash sale starts");
        let mut stderr = BufReader::new(process.stderr.take().expect("its messages"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("its first message");
        let words = line.split(' ').find(|word| word.starts_with("http://127.0.0.1:"));
        let url = words.unwrap_or_else(|| panic!("no address: {line}")).trim_end().to_owned();
        // All else that it has to say is read, so that it need not wait for that.
        std::thread::spawn(move || stderr.lines().for_each(drop));
        Self { process, url, _temporary: temporary }
    }

    /// Asks it to stop, and answers whether it ended well.
    fn close(mut self) -> bool {
        kill(self.pid(), Signal::SIGTERM).expect("it runs");
        self.process.wait().expect("it ends").success()
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id().try_into().expect("a pid"))
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn fill(page: &Page, id: &str, value: u32) {
    page.js(&format!("document.getElementById('{id}').value = {value}")).await;
}

/// Presses the button, and waits until the last buyer has left.
async fn rush(page: &Page, buyers: u32, stock: u32) {
    let before = begin(page, buyers, stock).await;
    is_over(page, buyers, before).await;
}

/// Presses the button; says how many rushes there were before.
async fn begin(page: &Page, buyers: u32, stock: u32) -> u64 {
    // Until then the page may put in the numbers of the command line.
    page.until("there is something to see", "view").await;
    fill(page, "buyers", buyers).await;
    fill(page, "stock", stock).await;
    let before = page.js("view.rushes").await;
    page.click("#rush").await;
    before.as_u64().expect("a number")
}

async fn is_over(page: &Page, buyers: u32, before: u64) {
    let over = format!(
        "view.rushes > {before} && view.rush && !view.rush.running && view.rush.answered === {buyers} \
         && !view.servers.some((server) => server.holds) && view.queue === 0"
    );
    page.until("the last buyer has left", &over).await;
}

/// On the page of locks.
async fn the_key_is_shown(browser: &Browser, shop: &Shop) {
    let locks = browser.open(&format!("{}/locks", shop.url)).await;
    locks.until("the key", "document.querySelector('tr[data-key=\"buy:sneaker\"]')").await;
    locks.has_no_problems();
}

async fn number(page: &Page, id: &str) -> u64 {
    let text = page.text(&format!("#{id}")).await.replace(',', "");
    text.parse().unwrap_or_else(|_| panic!("#{id} shows {text:?}"))
}

#[tokio::test]
async fn a_rush_sells_each_item_once_and_every_buyer_is_counted() {
    let shop = Shop::open(&["--hold-ms", "2"]);
    let browser = Browser::start().await;
    let page = browser.open(&shop.url).await;
    page.until("it is live", "view && document.querySelector('#state.live')").await;
    assert_eq!(number(&page, "left").await, 100, "the shelf is full before the first rush");
    for (buyers, stock) in [(200, 40), (60, 90)] {
        rush(&page, buyers, stock).await;
        let sold = u64::from(buyers.min(stock));
        let seen = [number(&page, "sold").await, number(&page, "left").await];
        assert_eq!(seen, [sold, u64::from(stock) - sold]);
        assert_eq!([number(&page, "oversold").await, number(&page, "queue").await], [0, 0]);
        let others = number(&page, "sold_out").await + number(&page, "busy").await;
        assert_eq!(sold + others, u64::from(buyers), "not every buyer is counted");
        assert!(page.text("#verdict").await.contains("each of them once"));
    }
    let colours = page.js("new Set(view.rush.grants.map((grant) => grant >> 1)).size").await;
    assert_eq!(colours, 4, "not every server has sold");
    assert!(number(&page, "remote").await > 0, "no hand-off from one server to another");
    page.has_no_problems();
    assert!(shop.close(), "it did not end well");
}

#[tokio::test]
async fn without_the_lock_the_same_rush_oversells_and_the_page_says_so() {
    let shop = Shop::open(&["--hold-ms", "50"]);
    let browser = Browser::start().await;
    let page = browser.open(&shop.url).await;
    page.click("#locked").await;
    rush(&page, 120, 20).await;
    let (sold, oversold) = (number(&page, "sold").await, number(&page, "oversold").await);
    assert!(oversold > 0 && sold == 20 + oversold, "{oversold} of {sold}");
    page.until("it is said", "document.querySelector('#oversold-tile.bad')").await;
    assert!(page.text("#verdict").await.contains("does not exist"));
    page.click("#locked").await;
    rush(&page, 120, 20).await;
    assert_eq!([number(&page, "sold").await, number(&page, "oversold").await], [20, 0]);
    page.has_no_problems();
}

#[tokio::test]
async fn buyers_in_a_hurry_are_told_when_they_cannot_be_served() {
    let shop = Shop::open(&["--hold-ms", "50"]);
    let browser = Browser::start().await;
    let page = browser.open(&shop.url).await;
    page.click("#hurry").await;
    // In 4 s no more than 80 of them have the lock.
    rush(&page, 300, 300).await;
    let (sold, refused) = (number(&page, "sold").await, number(&page, "busy").await);
    assert!(sold > 0 && refused >= 200 && sold + refused == 300, "{sold} + {refused}");
    assert_eq!(number(&page, "oversold").await, 0);
    assert!(page.text("#verdict").await.contains("told when to come back"));
    page.click("#locked").await;
    page.until("there is no lock to wait for", "document.querySelector('#hurry').disabled").await;
    page.has_no_problems();
}

#[tokio::test]
async fn the_inspector_and_the_metrics_are_beside_the_page() {
    let shop = Shop::open(&["--hold-ms", "20"]);
    let browser = Browser::start().await;
    let page = browser.open(&shop.url).await;
    begin(&page, 400, 400).await;
    page.until("buyers wait", "view?.queue > 0").await;
    the_key_is_shown(&browser, &shop).await;
    let metrics = browser.open(&format!("{}/metrics", shop.url)).await;
    let text = metrics.text("body").await;
    for name in ["lock_hold_seconds_bucket{le=", "lock_handoffs_total{kind=", "lock_waiters "] {
        assert!(text.contains(name), "no {name} in {text}");
    }
    metrics.has_no_problems();
    page.has_no_problems();
}

#[tokio::test]
async fn several_processes_over_redis_take_turns_and_a_picture_is_taken() {
    let server = RedisServer::start();
    let shop = Shop::open(&["--locks", &server.url(), "--processes", "4"]);
    let browser = Browser::start().await;
    let page = browser.open(&shop.url).await;
    page.prefer_dark(false).await;
    page.resize(1100, 560).await;
    let before = begin(&page, 600, 150).await;
    page.until("half is sold", "view.rushes && view.sold >= 75").await;
    picture(&page, "flash-sale.png").await;
    is_over(&page, 600, before).await;
    assert_eq!(number(&page, "oversold").await, 0);
    assert!(number(&page, "remote").await > 0, "no hand-off from process to process");
    for width in [1280, 768, 390, 320] {
        fits(&page, width).await;
    }
    page.has_no_problems();
    assert!(shop.close(), "it did not end well");
}

/// All make the table at once, and the page of one shows who of all has the key.
#[tokio::test]
async fn several_processes_over_a_database_sell_each_item_once() {
    let (postgres, mariadb) = (PostgresServer::start(), MariaDbServer::start());
    let browser = Browser::start().await;
    for url in [postgres.url(), mariadb.url()] {
        let shop = Shop::open(&["--locks", &url, "--processes", "4"]);
        let page = browser.open(&shop.url).await;
        rush(&page, 300, 100).await;
        assert_eq!([number(&page, "sold").await, number(&page, "oversold").await], [100, 0]);
        assert!(number(&page, "remote").await > 0, "no hand-off from process to process");
        begin(&page, 400, 400).await;
        page.until("buyers wait", "view?.queue > 0").await;
        page.has_no_problems();
        the_key_is_shown(&browser, &shop).await;
        assert!(shop.close(), "it did not end well");
    }
}

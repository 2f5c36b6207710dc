//! One tab.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::link::Link;

/// Longer than a rush of buyers takes on a machine that is busy with other tests.
const HOLDS_WITHIN: Duration = Duration::from_secs(60);

/// One tab of the browser.
#[derive(Debug)]
pub struct Page {
    link: Arc<Link>,
    session: String,
}

impl Page {
    pub(super) async fn open(link: Arc<Link>, url: &str) -> Self {
        let made = link.ask(None, "Target.createTarget", json!({ "url": "about:blank" })).await;
        let attach = json!({ "targetId": made["targetId"], "flatten": true });
        let attached = link.ask(None, "Target.attachToTarget", attach).await;
        let session = attached["sessionId"].as_str().expect("a session").to_owned();
        let page = Self { link, session };
        // Before the page is there, so that nothing it does is missed.
        for domain in ["Page", "Runtime", "Log"] {
            page.ask(&format!("{domain}.enable"), json!({})).await;
        }
        page.go(url).await;
        page
    }

    async fn ask(&self, method: &str, params: Value) -> Value {
        self.link.ask(Some(&self.session), method, params).await
    }

    /// Goes to another address, and waits until the page is loaded.
    pub async fn go(&self, url: &str) {
        let went = self.ask("Page.navigate", json!({ "url": url })).await;
        assert_eq!(went["errorText"], Value::Null, "{url}");
        self.until("the page is loaded", "document.readyState === 'complete'").await;
    }

    /// The value of an expression of JavaScript; a promise is awaited.
    ///
    /// # Panics
    ///
    /// If it throws.
    pub async fn js(&self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.ask("Runtime.evaluate", params).await;
        let thrown = &answer["exceptionDetails"];
        assert!(thrown.is_null(), "{expression}: {}", thrown["exception"]["description"]);
        answer["result"]["value"].take()
    }

    /// Evaluates `expression` until it is true.
    ///
    /// # Panics
    ///
    /// After a minute, with `what`, the text of the page and its problems.
    pub async fn until(&self, what: &str, expression: &str) {
        let end = Instant::now() + HOLDS_WITHIN;
        while self.js(&format!("!!({expression})")).await != true {
            if Instant::now() > end {
                let text = self.js("document.body.innerText").await;
                let problems = self.problems();
                panic!("it still does not hold: {what}\npage: {text}\nproblems: {problems:?}");
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// The text of the first element that a selector finds; empty if there is none.
    pub async fn text(&self, selector: &str) -> String {
        let found = format!("document.querySelector({})?.innerText ?? ''", quoted(selector));
        self.js(&found).await.as_str().unwrap_or_default().trim().to_owned()
    }

    /// Clicks with the mouse on the middle of the first element that a selector finds.
    ///
    /// # Panics
    ///
    /// If none is there within a minute, or something covers it.
    pub async fn click(&self, selector: &str) {
        let quoted = quoted(selector);
        self.until(
            &format!("there is something to click at {selector}"),
            &format!("document.querySelector({quoted})?.checkVisibility()"),
        )
        .await;
        let middle = format!(
            "(() => {{
                const element = document.querySelector({quoted});
                element.scrollIntoView({{ block: 'center', behavior: 'instant' }});
                const box = element.getBoundingClientRect();
                const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
                const at = document.elementFromPoint(x, y);
                return element.contains(at) || at?.contains(element) ? [x, y] : null;
            }})()"
        );
        let at = self.js(&middle).await;
        assert!(at.is_array(), "something covers {selector}");
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({ "type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1 });
            self.ask("Input.dispatchMouseEvent", event).await;
        }
    }

    /// Sets the size of the view, in pixels of the page.
    pub async fn resize(&self, width: u32, height: u32) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Lets the page believe that its reader prefers a dark one, or a light one.
    pub async fn prefer_dark(&self, dark: bool) {
        let scheme = if dark { "dark" } else { "light" };
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.ask("Emulation.setEmulatedMedia", json!({ "features": [feature] })).await;
    }

    /// The page as it is seen now, as a PNG.
    pub async fn screenshot(&self) -> Vec<u8> {
        let taken = self.ask("Page.captureScreenshot", json!({ "format": "png" })).await;
        STANDARD.decode(taken["data"].as_str().unwrap_or_default()).expect("an image")
    }

    /// Exceptions, errors on the console, files that were not served, broken rules of the policy,
    /// and dialogs of the page so far.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.link.problems(&self.session)
    }

    /// Nothing went wrong so far.
    ///
    /// # Panics
    ///
    /// With all that did.
    #[track_caller]
    pub fn has_no_problems(&self) {
        let problems = self.problems();
        assert!(problems.is_empty(), "{problems:#?}");
    }
}

/// A text as JavaScript writes it.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

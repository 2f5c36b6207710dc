//! A server for a page, and pictures of it.

use std::net::SocketAddr;
use std::path::Path;

use axum::Router;
use tests::browser::Page;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Serves until it is dropped.
pub(crate) struct Site {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Site {
    pub(crate) async fn serve(app: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let serving = tokio::spawn(async move {
            axum::serve(listener, app).await.expect("serves for ever");
        });
        Self { address, serving }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Keeps a picture of the page as `docs/{name}`, if that was asked for.
pub(crate) async fn picture(page: &Page, name: &str) {
    if std::env::var_os("SCREENSHOTS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
        std::fs::write(path, page.screenshot().await).expect("the picture is written");
    }
}

/// Nothing of the page is cut off or needs scrolling sideways.
pub(crate) async fn fits(page: &Page, width: u32) {
    page.resize(width, 900).await;
    let wide = page.js("document.documentElement.scrollWidth").await;
    assert!(wide.as_u64() <= Some(width.into()), "{wide} wide in a view of {width}");
}

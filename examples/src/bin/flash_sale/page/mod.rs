//! A page to watch the sale, and to start rushes from.
//!
//! | route | answers |
//! |---|---|
//! | `GET /` | the page |
//! | `GET /events` | what is to be seen on it, as server-sent events |
//! | `POST /rush` | fills the shelf and lets buyers in; 409 while there are some |
//! | `GET /locks` … | the inspector of this process's lock client |
//! | `GET /metrics` | what this process has measured, for Prometheus |
//!
//! It has no log-in, so it listens on this machine only and answers to no other name, which a page
//! of another site could lead here by its name server.

mod access;
mod board;
mod events;
mod hall;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::middleware::from_fn;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use lock_core::Key;
use lock_tower::inspect;
use tokio::net::TcpListener;

use crate::fleet::Fleet;
use crate::options::Options;
use crate::server;
use crate::shop::Shop;
use crate::signals::Stop;
use crate::{SKU, Trouble};
use hall::Hall;

/// Serves the page until the program is to stop.
pub(crate) async fn serve(
    address: SocketAddr,
    options: &Options,
    fleet: &Fleet,
    shop: &Shop,
    mut stop: Stop,
) -> Result<(), Trouble> {
    let asked = stop.clone();
    tokio::select! {
        biased;
        () = stop.asked() => Ok(()),
        ended = show(address, options, fleet, shop, asked) => ended,
    }
}

async fn show(
    address: SocketAddr,
    options: &Options,
    fleet: &Fleet,
    shop: &Shop,
    stop: Stop,
) -> Result<(), Trouble> {
    let listener =
        TcpListener::bind(address).await.map_err(|error| format!("{address}: {error}"))?;
    let hall = Hall::open(options, fleet.reach(), shop.clone(), stop).await?;
    eprintln!("look at http://{} until ctrl-c", listener.local_addr()?);
    let inspector = inspect::router(fleet.locks(), |_| Ok::<_, StatusCode>(()))
        .allow_force_release(|(), key: &Key| key.as_str() == format!("buy:{SKU}"));
    let routes = Router::new()
        .route("/", get(async || file("text/html", include_str!("page.html"))))
        .route("/page.js", get(async || file("text/javascript", include_str!("page.js"))))
        .route("/page.css", get(async || file("text/css", include_str!("page.css"))))
        .route("/events", get(events::events))
        .route("/rush", post(hall::rush))
        .route("/metrics", get(server::metrics))
        .with_state(Arc::new(hall))
        .merge(inspector.into_router())
        .layer(from_fn(access::check));
    axum::serve(listener, routes).await?;
    Ok(())
}

fn file(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-store")], text)
}

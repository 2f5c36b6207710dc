//! A load on the service, and what it moved of what the dashboard shows.

#![allow(clippy::disallowed_methods)] // its own clock and chance

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Builder;
use axum::http::{Request, StatusCode};
use comfy_table::{Table, presets::ASCII_FULL_CONDENSED};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::task::JoinSet;

use crate::{Trouble, app, telemetry};

/// Clients that ask one after the other.
const CLIENTS: u64 = 24;

const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The series whose change is printed, by the panel that draws them.
const SHOWN: [&str; 6] = [
    "lock_wait_seconds_count",
    "lock_hold_seconds_count",
    "lock_handoffs_total",
    "lock_http_refused_total",
    "lock_store_seconds_count",
    "idempotency_requests_total",
];

type Web = Client<HttpConnector, Body>;
type Answers = BTreeMap<(&'static str, u16), u64>;

pub(crate) async fn run(at: SocketAddr, lasts: Duration) -> Result<(), Trouble> {
    let web = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let (before, until) = (series(), Instant::now() + lasts);
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(ask(web.clone(), at, client, until));
    }
    let mut answers = Answers::new();
    while let Some(counted) = clients.join_next().await {
        for (answer, count) in counted?? {
            *answers.entry(answer).or_default() += count;
        }
    }
    // An operator may, and nobody else.
    let repair = || Request::post(format!("http://{at}/orders/1/repair"));
    for request in [repair(), repair().header(AUTHORIZATION, app::OPERATOR)] {
        count(&web, request, "repair", &mut answers).await?;
    }
    print(&answers, &before);
    Ok(())
}

/// One client: it ships, sells, pays twice under one key, and wants a report now and then.
async fn ask(web: Web, at: SocketAddr, client: u64, until: Instant) -> Result<Answers, Trouble> {
    let mut answers = Answers::new();
    let mut round = 0;
    while Instant::now() < until {
        round += 1;
        // Few orders and skus, so that clients meet.
        let (order, sku) = (fastrand::u64(..8), fastrand::u64(..3));
        let paths = [
            ("ship", format!("/orders/{order}/ship")),
            ("sell", format!("/stock/{sku}")),
            ("pay", format!("/orders/{order}/pay")),
            ("pay", format!("/orders/{order}/pay")),
            ("report", "/reports".to_owned()),
        ];
        // The first of ten rounds has a report.
        for (what, path) in &paths[..if round % 10 == 1 { 5 } else { 4 }] {
            let request = Request::post(format!("http://{at}{path}"))
                .header("x-buyer", format!("buyer-{client}"))
                .header("idempotency-key", format!("\"{client}-{round}\""));
            count(&web, request, what, &mut answers).await?;
        }
    }
    Ok(answers)
}

async fn count(
    web: &Web,
    request: Builder,
    what: &'static str,
    answers: &mut Answers,
) -> Result<(), Trouble> {
    let response = web.request(request.body(Body::empty())?).await?;
    let status = response.status();
    to_bytes(Body::new(response.into_body()), ANSWER_BYTES_MAX).await?;
    assert!(!status.is_server_error() || status == StatusCode::SERVICE_UNAVAILABLE, "{status}");
    *answers.entry((what, status.as_u16())).or_default() += 1;
    Ok(())
}

/// The values that Prometheus would be told now.
fn series() -> BTreeMap<String, f64> {
    let text = telemetry::rendered();
    let lines = text.lines().filter(|line| SHOWN.iter().any(|name| line.starts_with(name)));
    let parted = lines.filter_map(|line| line.rsplit_once(' '));
    parted.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

fn print(answers: &Answers, before: &BTreeMap<String, f64>) {
    let mut table = Table::new();
    table.load_style(ASCII_FULL_CONDENSED).set_header(["request", "answer", "so many"]);
    for ((what, status), count) in answers {
        table.add_row([(*what).to_owned(), status.to_string(), count.to_string()]);
    }
    println!("{table}");
    let mut table = Table::new();
    table.load_style(ASCII_FULL_CONDENSED).set_header(["series", "moved by"]);
    for (name, now) in series() {
        let moved = now - before.get(&name).copied().unwrap_or_default();
        if moved != 0.0 {
            table.add_row([name, format!("{moved}")]);
        }
    }
    println!("{table}");
}

//! The dashboard in docs/ shows what there is, and all of it; the alerts ask for what there is.

use std::collections::BTreeSet;
use std::fs;

use lock_core::metrics::{Kind, METRICS as OF_LOCKS, Metric};
use lock_tower::metrics::METRICS;
use serde_json::Value;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/dashboards/lock.json");

const ALERTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/dashboards/alerts.yml");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/alerts.md");

/// Words of PromQL and of the variables that stand where a metric may stand.
const WORDS: [&str; 12] = [
    "by",
    "histogram_quantile",
    "increase",
    "job",
    "label_values",
    "le",
    "min",
    "rate",
    "sum",
    "__rate_interval",
    "h",
    "s",
];

fn metrics() -> impl Iterator<Item = &'static Metric> {
    OF_LOCKS.iter().chain(METRICS)
}

/// Every expression: what panels draw, and what variables ask for.
fn expressions<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if name == "expr" || name == "definition" => found.push(text),
                    _ => expressions(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}

/// The names in an expression, text in quotes left out.
fn words(expression: &str) -> impl Iterator<Item = &str> {
    let plain = expression.split('"').step_by(2);
    plain
        .flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        .filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn dashboard() -> Value {
    serde_json::from_str(&read(PATH)).expect("the dashboard is JSON")
}

/// The names of an expression are metrics, their labels with values that they may have, and words
/// of PromQL; the metrics.
fn checked(expression: &str) -> Vec<(&'static Metric, bool)> {
    let used: Vec<_> = words(expression).filter_map(metric).collect();
    assert!(!used.is_empty(), "no metric of ours: {expression}");
    for word in words(expression).filter(|word| metric(word).is_none()) {
        let mut labels = used.iter().flat_map(|(of, _)| of.labels);
        let is_label = labels.any(|(label, _)| *label == word);
        assert!(is_label || WORDS.contains(&word), "`{word}` in {expression}");
    }
    for (of, is_bucket) in &used {
        assert_eq!(*is_bucket, expression.contains("histogram_quantile("), "{expression}");
        for (label, values) in of.labels {
            for sign in ["=\"", "=~\""] {
                let Some((_, rest)) = expression.split_once(&format!("{label}{sign}")) else {
                    continue;
                };
                for value in rest.split('"').next().unwrap_or_default().split('|') {
                    assert!(values.contains(&value), "{label}={value} in {expression}");
                }
            }
        }
    }
    used
}

/// The metric behind a name as the exporter renders it, and what of a histogram it is.
fn metric(word: &str) -> Option<(&'static Metric, bool)> {
    metrics().find_map(|metric| match (metric.kind, word.strip_prefix(metric.name)?) {
        (Kind::Histogram, "_bucket") => Some((metric, true)),
        (Kind::Histogram, "_count" | "_sum") | (Kind::Counter | Kind::Gauge, "") => {
            Some((metric, false))
        }
        _ => None,
    })
}

#[test]
fn every_name_on_the_dashboard_is_a_metric_or_a_label_of_ours_and_every_metric_is_on_it() {
    let dashboard = dashboard();
    let mut found = Vec::new();
    expressions(&dashboard, &mut found);
    let mut shown = BTreeSet::new();
    for expression in found {
        let used = checked(expression);
        assert_eq!(used.len(), 1, "one metric each: {expression}");
        shown.insert(used[0].0.name);
    }
    assert_eq!(shown, metrics().map(|metric| metric.name).collect());
}

#[test]
fn panels_stand_beside_each_other_and_have_numbers_of_their_own() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len());
    let mut taken = BTreeSet::new();
    for panel in panels {
        let at = |name: &str| panel["gridPos"][name].as_u64().expect("a place");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(x < 24 && taken.insert((x, y)), "{} overlaps", panel["title"]);
            }
        }
    }
}

#[test]
fn each_alert_asks_for_what_there_is_and_has_its_part_of_the_page() {
    let (rules, page) = (read(ALERTS), read(PAGE));
    let values = |name: &str| {
        let mark = format!("{name}: ");
        rules
            .lines()
            .filter_map(move |line| {
                line.trim_start_matches(['-', ' ']).strip_prefix(&*mark).map(str::to_owned)
            })
            .collect::<Vec<_>>()
    };
    let (alerts, expressions) = (values("alert"), values("expr"));
    assert!(!alerts.is_empty() && alerts.len() == expressions.len());
    for expression in &expressions {
        checked(expression);
    }
    let parts: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(parts, alerts, "in one order");
    let links: Vec<_> =
        alerts.iter().map(|alert| format!("docs/alerts.md#{}", alert.to_lowercase())).collect();
    assert_eq!(values("page"), links);
}

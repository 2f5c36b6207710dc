//! The dashboard in docs/ shows what there is, and all of it.

use std::collections::BTreeSet;
use std::fs;

use lock_core::metrics::{Kind, METRICS as OF_LOCKS, Metric};
use lock_tower::metrics::METRICS;
use serde_json::Value;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/dashboards/lock.json");

/// Words of PromQL and of the variables that stand where a metric may stand.
const WORDS: [&str; 11] = [
    "by",
    "histogram_quantile",
    "increase",
    "job",
    "label_values",
    "le",
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

fn dashboard() -> Value {
    let text = fs::read_to_string(PATH).unwrap_or_else(|error| panic!("{PATH}: {error}"));
    serde_json::from_str(&text).expect("the dashboard is JSON")
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
        let used: Vec<_> = words(expression).filter_map(metric).collect();
        assert_eq!(used.len(), 1, "one metric each: {expression}");
        let (of, is_bucket) = used[0];
        assert_eq!(is_bucket, expression.contains("histogram_quantile("), "{expression}");
        shown.insert(of.name);
        for word in words(expression).filter(|word| metric(word).is_none()) {
            let is_label = of.labels.iter().any(|(label, _)| *label == word);
            assert!(is_label || WORDS.contains(&word), "`{word}` in {expression}");
        }
        for (label, values) in of.labels {
            let Some((_, rest)) = expression.split_once(&format!("{label}=\"")) else { continue };
            let value = rest.split('"').next().unwrap_or_default();
            assert!(values.contains(&value), "{label}={value} in {expression}");
        }
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

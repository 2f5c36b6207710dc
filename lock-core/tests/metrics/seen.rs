//! The figures that a recorder was given.

use std::collections::BTreeMap;

use metrics_util::debugging::{DebugValue, Snapshotter};

/// A series: its name, and its labels in order.
pub(crate) type Series = (String, Vec<(String, String)>);

pub(crate) fn series(name: &str, labels: &[(&str, &str)]) -> Series {
    (name.into(), labels.iter().map(|&(label, value)| (label.into(), value.into())).collect())
}

/// The figures that were recorded; each look forgets what it has seen, gauges too.
pub(crate) struct Seen(pub(crate) BTreeMap<Series, DebugValue>);

impl Seen {
    pub(crate) fn of(snapshotter: &Snapshotter) -> Self {
        let all = snapshotter.snapshot().into_vec().into_iter();
        Self(
            all.map(|(key, _, _, value)| {
                let (name, labels) = key.key().clone().into_parts();
                let labels = labels
                    .into_iter()
                    .map(|label| (label.key().to_owned(), label.value().to_owned()));
                ((name.as_str().to_owned(), labels.collect()), value)
            })
            .collect(),
        )
    }

    /// How often a counter or a histogram was given something.
    pub(crate) fn count(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        match self.0.get(&series(name, labels)) {
            None => 0,
            Some(DebugValue::Counter(count)) => *count,
            Some(DebugValue::Histogram(values)) => values.len() as u64,
            Some(DebugValue::Gauge(_)) => panic!("{name} is a gauge"),
        }
    }

    pub(crate) fn seconds(&self, name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
        match self.0.get(&series(name, labels)) {
            Some(DebugValue::Histogram(values)) => values.iter().map(|value| value.0).collect(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn gauge(&self, name: &str) -> f64 {
        match self.0.get(&series(name, &[])) {
            Some(DebugValue::Gauge(value)) => value.0,
            _ => panic!("{name} is no gauge"),
        }
    }
}

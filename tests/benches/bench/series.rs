//! Figures over repeats.

use hdrhistogram::Histogram;
use serde::Serialize;

/// The middle and the ends of some repeats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        };
        let end = |value: Option<&f64>| value.copied().unwrap_or(f64::NAN);
        Spread { median, min: end(sorted.first()), max: end(sorted.last()) }
    }
}

/// The measurements of one work: for each rival and figure, one value per repeat.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    cells: Vec<(String, &'static str, Vec<f64>)>,
}

impl Series {
    pub(crate) fn push(&mut self, rival: &str, figure: &'static str, value: f64) {
        match self.cells.iter_mut().find(|(r, f, _)| r == rival && *f == figure) {
            Some((_, _, values)) => values.push(value),
            None => self.cells.push((rival.to_owned(), figure, vec![value])),
        }
    }

    /// Takes the medians of a repeat that measured everything several times by turns.
    pub(crate) fn push_medians(&mut self, rounds: &Series) {
        for (rival, figure, values) in &rounds.cells {
            self.push(rival, figure, Spread::of(values).median);
        }
    }

    pub(crate) fn get(&self, rival: &str, figure: &str) -> &[f64] {
        let cell = self.cells.iter().find(|(r, f, _)| r == rival && *f == figure);
        cell.map_or(&[], |(_, _, values)| values)
    }

    pub(crate) fn spread(&self, rival: &str, figure: &str) -> Spread {
        Spread::of(self.get(rival, figure))
    }

    /// `one` divided by `other`, repeat by repeat.
    pub(crate) fn ratio(&self, one: &str, other: &str, figure: &str) -> Spread {
        let pairs = self.get(one, figure).iter().zip(self.get(other, figure));
        Spread::of(&pairs.map(|(one, other)| one / other).collect::<Vec<_>>())
    }

    /// One figure of `rival` divided by another, repeat by repeat.
    pub(crate) fn ratio_of(&self, rival: &str, one: &str, other: &str) -> Spread {
        let pairs = self.get(rival, one).iter().zip(self.get(rival, other));
        Spread::of(&pairs.map(|(one, other)| one / other).collect::<Vec<_>>())
    }

    /// In the order of their first measurement.
    pub(crate) fn rivals(&self) -> Vec<&str> {
        let mut rivals: Vec<&str> = Vec::new();
        for (rival, _, _) in &self.cells {
            if !rivals.contains(&rival.as_str()) {
                rivals.push(rival);
            }
        }
        rivals
    }

    /// In the order of their first measurement.
    pub(crate) fn figures(&self) -> Vec<&'static str> {
        let mut figures = Vec::new();
        for (_, figure, _) in &self.cells {
            if !figures.contains(figure) {
                figures.push(*figure);
            }
        }
        figures
    }
}

/// Jain's fairness index: 1 if all have the same, 1/n if one has everything.
pub(crate) fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|&share| share as f64).sum();
    let squares: f64 = shares.iter().map(|&share| (share as f64).powi(2)).sum();
    if squares == 0.0 { 0.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// Times in nanoseconds, to three digits, of any length.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Self {
        Latencies(Histogram::new(3).expect("three digits"))
    }

    pub(crate) fn record(&mut self, ns: u64) {
        // It grows as it must; a saturating record would not.
        self.0.record(ns).expect("a histogram that resizes");
    }

    /// The value that the `quantile` (0 to 1) of all does not exceed; 1 is the largest.
    pub(crate) fn ns(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }
}

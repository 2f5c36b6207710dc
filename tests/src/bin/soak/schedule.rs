//! The faults to come, by the seed.

use fastrand::Rng;
use tests::scene::Kind;

use crate::faults::{FAULTS, Lane, Row, What};

/// One fault to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// How long after the end of the one before it, in milliseconds.
    pub(crate) gap_ms: u64,
    pub(crate) what: What,
    /// How long it lasts, in milliseconds.
    pub(crate) for_ms: u64,
    /// Picks the process, the server, the key.
    pub(crate) which: u64,
    /// Picks what else there is to choose.
    pub(crate) how: u64,
}

/// Draws the faults of one round after the other.
#[derive(Debug)]
pub(crate) struct Schedule {
    rng: Rng,
    kind: &'static Kind,
    rounds: u64,
    /// For how long yet a server that loses its data would give tokens that it gave before.
    behind_ms: u64,
}

/// The faults of one round, by lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
    pub(crate) processes: Vec<Step>,
    pub(crate) links: Vec<Step>,
    pub(crate) servers: Vec<Step>,
}

/// In one round of so many nothing fails: most faults excuse a free key that is left alone.
const CALM_ONE_OF: u64 = 5;

/// Nothing fails in the first moments of a round, so that they show what holds without faults.
const CALM_MS: u64 = 1_500;

impl Schedule {
    pub(crate) fn new(kind: &'static Kind, seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed), kind, rounds: 0, behind_ms: 0 }
    }

    /// The next round, of so many milliseconds or as long as its faults take.
    pub(crate) fn round(&mut self, span_ms: u64) -> Round {
        self.rounds += 1;
        if self.rounds.is_multiple_of(CALM_ONE_OF) {
            return Round::default();
        }
        Round {
            processes: self.lane(Lane::Processes, span_ms),
            links: self.lane(Lane::Links, span_ms),
            servers: self.lane(Lane::Servers, span_ms),
        }
    }

    fn lane(&mut self, lane: Lane, span_ms: u64) -> Vec<Step> {
        let rows: Vec<&Row> = FAULTS.iter().filter(|row| row.lane == lane).collect();
        let rows: Vec<_> = rows.into_iter().filter(|row| row.can_happen_to(self.kind)).collect();
        let (mut steps, mut at_ms) = (Vec::new(), CALM_MS);
        let mut gap_ms = CALM_MS + self.rng.u64(..1_000);
        while !rows.is_empty() && at_ms + gap_ms < span_ms {
            let row = rows[self.rng.usize(..rows.len())];
            // Its locks stay taken for a lease or a session, and little else happens then.
            if row.what == What::Crash && self.rng.bool() {
                gap_ms += 500;
                continue;
            }
            // Tokens are promised over lost data or over a clock that was set back, not over both.
            if row.loses_data() && after(self.behind_ms, gap_ms.saturating_sub(500)) > 0 {
                gap_ms += 100;
                continue;
            }
            let step = self.step(row, gap_ms);
            at_ms += gap_ms + step.for_ms;
            if lane == Lane::Servers {
                self.behind_ms = after(self.behind_ms, gap_ms + step.for_ms);
            }
            match step.what {
                What::ClockBack => self.behind_ms += back_ms(&step),
                What::ClockForward => {
                    self.behind_ms = self.behind_ms.saturating_sub(forward_ms(&step));
                }
                _ => {}
            }
            steps.push(step);
            gap_ms = self.rng.u64(200..2_500);
        }
        steps
    }

    fn step(&mut self, row: &Row, gap_ms: u64) -> Step {
        let (least, most) = row.lasts_ms;
        // Mostly short, as what is long leaves little else to happen; but not stops, of which those
        // that outlast a lease show the most.
        let is_long = row.lane == Lane::Processes || self.rng.u8(..3) == 0;
        let most = if is_long { most } else { least + (most - least) / 3 };
        let for_ms = self.rng.u64(least..=most);
        Step { gap_ms, what: row.what, for_ms, which: self.rng.u64(..), how: self.rng.u64(..) }
    }
}

/// How far tokens are ahead of a clock after so long that were so far. Each grant takes them on by 64 µs
/// where that is over a second. A soak makes a few hundred a second, which is less than a tenth of the time.
fn after(behind_ms: u64, span_ms: u64) -> u64 {
    behind_ms.saturating_sub(span_ms - span_ms / 10)
}

/// By how far a clock is set forward: past some leases, past all, by an hour.
pub(crate) fn forward_ms(step: &Step) -> u64 {
    [700, 3_000, 60_000, 3_600_000][usize::try_from(step.how % 4).expect("small")]
}

/// By how far a clock is set back: so little that a soak goes on.
pub(crate) fn back_ms(step: &Step) -> u64 {
    [1, 300, 1_000, 2_500][usize::try_from(step.how % 4).expect("small")]
}

#[cfg(test)]
mod test {
    use tests::scene::layouts::{KINDS, MEMORY, REDIS};

    use super::*;

    fn rounds(kind: &'static Kind, seed: u64) -> Vec<Round> {
        let mut schedule = Schedule::new(kind, seed);
        (0..20).map(|_| schedule.round(12_000)).collect()
    }

    #[test]
    fn the_same_seed_draws_the_same_faults_and_another_seed_others() {
        for kind in KINDS {
            assert_eq!(rounds(kind, 7), rounds(kind, 7));
            assert_ne!(rounds(kind, 7), rounds(kind, 8));
        }
    }

    #[test]
    fn every_fault_that_a_store_can_suffer_comes_and_no_other() {
        for kind in KINDS {
            let rounds: Vec<_> = (0..20).flat_map(|seed| rounds(kind, seed)).collect();
            let drawn = |what| {
                let all = |round: &Round| {
                    [&round.processes, &round.links, &round.servers].map(Clone::clone).concat()
                };
                rounds.iter().flat_map(all).any(|step| step.what == what)
            };
            for row in FAULTS {
                let can = row.can_happen_to(kind);
                assert_eq!(drawn(row.what), can, "{} on {}", row.name, kind.name);
            }
        }
        assert!(rounds(&MEMORY, 1).iter().all(|round| round.links.is_empty()));
    }

    #[test]
    fn no_data_are_lost_while_a_clock_is_behind_what_it_was() {
        for seed in 0..50 {
            let mut behind_ms = 0;
            for step in rounds(&REDIS, seed).iter().flat_map(|round| &round.servers) {
                behind_ms = after(behind_ms, step.gap_ms);
                let loses = matches!(step.what, What::Restart | What::Wipe | What::FailOver);
                assert!(behind_ms == 0 || !loses, "{step:?} {behind_ms} ms too early");
                behind_ms = after(behind_ms, step.for_ms);
                match step.what {
                    What::ClockBack => behind_ms += back_ms(step),
                    What::ClockForward => behind_ms = behind_ms.saturating_sub(forward_ms(step)),
                    _ => {}
                }
            }
        }
    }
}

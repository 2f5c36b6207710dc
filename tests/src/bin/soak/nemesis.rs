//! Does the faults of a round: three lanes at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tests::blocked::alone;
use tests::clock::now_ns;
use tests::proxy::{Action, Direction, Flow};
use tests::scene::{Kind, Layout, Line, Verb};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::faults::{Done, What};
use crate::schedule::{Step, back_ms, forward_ms};
use crate::workers::{Ground, Place, SCOPE};

/// Ends waits when the run is to end.
#[derive(Clone, Debug)]
pub(crate) struct Stop(pub(crate) watch::Receiver<bool>);

impl Stop {
    pub(crate) fn is_told(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the run is to end.
    pub(crate) async fn told(&self) {
        // Whoever tells it lives as long as the process.
        let _ = self.0.clone().wait_for(|told| *told).await;
    }

    /// Waits so long, or until the run is to end.
    pub(crate) async fn wait(&self, for_ms: u64) {
        tokio::select! {
            () = sleep(Duration::from_millis(for_ms)) => {}
            () = self.told() => {}
        }
    }
}

/// The faults that were done so far.
#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<Vec<Done>>);

impl Log {
    fn note(&self, step: &Step, target: String, from_ns: u64) {
        let back_ms = if step.what == What::ClockBack { back_ms(step) } else { 0 };
        let done = Done { what: step.what, target, from_ns, until_ns: now_ns(), back_ms };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(done);
    }

    pub(crate) fn take(self) -> Vec<Done> {
        let mut done = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|one| one.from_ns);
        done
    }
}

fn pick(which: u64, of: usize) -> usize {
    usize::try_from(which % of as u64).expect("less than there are")
}

/// Stops and kills processes; who was killed.
pub(crate) async fn processes(
    steps: &[Step],
    (places, ground): (&mut [Place], &Ground),
    log: &Log,
    stop: &Stop,
) -> Vec<String> {
    let mut killed = Vec::new();
    for step in steps {
        stop.wait(step.gap_ms).await;
        if stop.is_told() {
            break;
        }
        let place = &mut places[pick(step.which, places.len())];
        let (name, from_ns) = (place.name(), now_ns());
        match step.what {
            What::Crash => {
                killed.push(place.crash());
                stop.wait(step.for_ms).await;
                place.succeed(ground);
            }
            _ => {
                place.stop();
                stop.wait(step.for_ms).await;
                place.go_on();
            }
        }
        log.note(step, name, from_ns);
    }
    killed
}

/// Breaks links.
pub(crate) async fn links(steps: &[Step], lines: &[Line], keys: &Keys, log: &Log, stop: &Stop) {
    for step in steps {
        stop.wait(step.gap_ms).await;
        if stop.is_told() {
            break;
        }
        let (number, from_ns) = (pick(step.which, lines.len()), now_ns());
        let line = &lines[number];
        let trap = |action| {
            let (verb, key) = keys.pick(step.how);
            (line.trap(&keys.matches[verb][key], action), format!("{:?}", VERBS[verb]))
        };
        let mut target = format!("link of p{number}");
        match step.what {
            What::SwallowReply | What::LoseRequest | What::HoldReply => {
                let (snare, verb) = trap(match step.what {
                    What::SwallowReply => Action::SwallowReply,
                    What::LoseRequest => Action::DropRequest,
                    _ => Action::HoldReply,
                });
                stop.wait(step.for_ms).await;
                target += &format!(", {verb}");
                if !snare.has_sprung() {
                    target += ", which did not come";
                }
            }
            what => {
                break_link(line, what, step.how);
                stop.wait(step.for_ms).await;
                line.resume();
            }
        }
        log.note(step, target, from_ns);
    }
}

fn break_link(line: &Line, what: What, how: u64) {
    let one_way = if how.is_multiple_of(2) { Direction::ToServer } else { Direction::ToClient };
    match what {
        What::Cut => line.cut(),
        What::Reset => line.reset(),
        What::Refuse => line.refuse(),
        What::BlackHole => line.black_hole(),
        What::OneWay => line.set(one_way, Flow::BlackHole),
        What::Silence => line.silence(),
        What::LosePushes => line.drop_pushes(true),
        _ => {
            let delay = Flow::Delay(Duration::from_millis(5 + how % 300));
            line.set(Direction::ToServer, delay);
            line.set(Direction::ToClient, delay);
        }
    }
}

const VERBS: [Verb; 4] = [Verb::Attempt, Verb::Join, Verb::Renew, Verb::Withdraw];

/// The keys of a soak, and the requests for each.
pub(crate) struct Keys {
    pub(crate) names: Vec<String>,
    matches: Vec<Vec<tests::proxy::Match>>,
}

impl Keys {
    pub(crate) fn of(layout: &dyn Layout, keys: u64) -> Self {
        let names: Vec<_> = (0..keys).map(|key| format!("{SCOPE}-k{key}")).collect();
        let of = |verb: Verb| names.iter().map(|key| layout.request(verb, key)).collect();
        // Where nothing stands between there is nothing to match.
        let matches = if layout.servers() == 0 { Vec::new() } else { VERBS.map(of).into() };
        Self { names, matches }
    }

    fn pick(&self, how: u64) -> (usize, usize) {
        (pick(how, VERBS.len()), pick(how / 4, self.names.len()))
    }
}

/// Does to servers what is to be done. Blocks its thread.
pub(crate) fn servers(
    steps: &[Step],
    layout: &mut dyn Layout,
    keys: &[String],
    log: &Log,
    stop: &Stop,
) {
    let wait = |for_ms| alone().block_on(stop.wait(for_ms));
    for step in steps {
        wait(step.gap_ms);
        if stop.is_told() {
            break;
        }
        let (from_ns, key) = (now_ns(), keys[pick(step.how, keys.len())].as_str());
        let target = to_server(step, layout, key, &wait);
        if !matches!(step.what, What::Pause | What::Delete | What::ClockBack | What::ClockForward) {
            settle(layout, stop);
        }
        log.note(step, target, from_ns);
    }
}

fn to_server(step: &Step, layout: &mut dyn Layout, key: &str, wait: &dyn Fn(u64)) -> String {
    let serving = layout.serving(SCOPE, key);
    let one = one_of(layout.kind(), step.which, &serving, layout.servers());
    match step.what {
        What::Pause => {
            one.iter().for_each(|server| layout.pause(*server));
            wait(step.for_ms);
            one.iter().for_each(|server| layout.resume(*server));
            format!("server {one:?}")
        }
        What::Restart => {
            // Members of a quorum that forgets come one at a time.
            let one = if layout.kind().store == "redlock" { &one[..1] } else { &one[..] };
            one.iter().for_each(|server| layout.kill(*server));
            wait(step.for_ms);
            layout.restart(one);
            format!("server {one:?}")
        }
        What::FailOver => {
            let has = alone().block_on(layout.fail_over(key));
            assert!(has, "the table of faults says that it can");
            format!("server {serving:?}")
        }
        What::Wipe => {
            let server = serving[pick(step.which, serving.len())];
            assert!(layout.wipe(server), "the table of faults says that it can");
            format!("server {server}")
        }
        What::Delete => {
            layout.delete(SCOPE, key);
            key.to_owned()
        }
        What::ClockForward => {
            layout.skew_clock(i64::try_from(forward_ms(step)).expect("an hour"));
            format!("{} ms", forward_ms(step))
        }
        _ => {
            layout.skew_clock(-i64::try_from(back_ms(step)).expect("seconds"));
            format!("{} ms", back_ms(step))
        }
    }
}

/// The servers that are meant: those without which a key is not served, or any one.
fn one_of(kind: &Kind, which: u64, serving: &[usize], servers: usize) -> Vec<usize> {
    if servers == 0 {
        return Vec::new();
    }
    // Sentinels take a replica that was started again for a master of its own, for a while.
    let any = kind.store != "redis+sentinel" && which.is_multiple_of(2);
    if any { vec![pick(which / 2, servers)] } else { serving.to_vec() }
}

/// Waits until all servers serve. They have so long as fixtures give them, twice.
pub(crate) fn settle(layout: &dyn Layout, stop: &Stop) {
    for _ in 0..2 {
        let settled = AssertUnwindSafe(|| {
            alone().block_on(async {
                tokio::select! {
                    () = layout.settled() => {}
                    () = stop.told() => {}
                }
            });
        });
        if catch_unwind(settled).is_ok() {
            return;
        }
        eprintln!("soak: not settled yet, waiting on");
    }
    alone().block_on(layout.settled());
}

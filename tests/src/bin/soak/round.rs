//! The rounds of a run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tests::clock::now_ns;
use tests::scene::{Layout, Tempo};
use tokio::sync::watch;
use tokio::task::{block_in_place, spawn_blocking};

use crate::arguments::Arguments;
use crate::faults::{Done, grace};
use crate::nemesis::{self, Keys, Log, Stop};
use crate::report::Figures;
use crate::schedule::{Round, Schedule};
use crate::verdict::{Broken, Memory, Verdict, judge};
use crate::workers::{Crew, SCOPE};

/// How long a round is, but for the last.
const ROUND: Duration = Duration::from_secs(12);

/// The shortest time that another round is begun for.
const ROUND_MIN: Duration = Duration::from_secs(4);

/// How long after the last process the places of dead ones in a line are there yet, at the most.
const TRACES: Duration = Duration::from_secs(30);

/// Runs to the end of the time, or to the first thing that does not hold.
pub(crate) async fn all(arguments: &Arguments, stop: watch::Receiver<bool>) -> (Figures, Verdict) {
    let stop = Stop(stop);
    let mut figures = Figures::new();
    let layout = tokio::select! {
        layout = (arguments.store.start)() => layout,
        () = stop.told() => return (figures, Verdict::Stopped),
    };
    let mut run = Run::new(arguments, layout, stop);
    figures.begin();
    let verdict = run.rounds(arguments, &mut figures).await;
    (figures, verdict)
}

struct Run {
    /// With the nemesis while that is at work.
    layout: Option<Box<dyn Layout>>,
    crew: Crew,
    keys: Arc<Keys>,
    schedule: Schedule,
    memory: Memory,
    stop: Stop,
}

impl Run {
    fn new(arguments: &Arguments, layout: Box<dyn Layout>, stop: Stop) -> Self {
        let keys = Arc::new(Keys::of(&*layout, arguments.keys));
        let crew = block_in_place(|| Crew::start(arguments, &*layout));
        let schedule = Schedule::new(arguments.store, arguments.seed);
        Self { layout: Some(layout), crew, keys, schedule, memory: Memory::default(), stop }
    }

    fn layout(&self) -> &dyn Layout {
        self.layout.as_deref().expect("the nemesis is done")
    }

    async fn rounds(&mut self, arguments: &Arguments, figures: &mut Figures) -> Verdict {
        let (began, span) = (Instant::now(), arguments.span());
        let bar = progress_bar(span);
        while figures.rounds == 0 || began.elapsed() + ROUND_MIN < span {
            let left = span.saturating_sub(began.elapsed()).min(ROUND);
            if let Err(verdict) = self.round(left, figures).await {
                bar.finish_and_clear();
                return verdict;
            }
            bar.set_position(began.elapsed().as_secs());
            bar.set_message(figures.line());
            if bar.is_hidden() {
                eprintln!("soak: {:>5} s  {}", began.elapsed().as_secs(), figures.line());
            }
        }
        bar.finish_and_clear();
        self.end(figures).await
    }

    async fn round(&mut self, span: Duration, figures: &mut Figures) -> Result<(), Verdict> {
        let span_ms = u64::try_from(span.as_millis()).expect("a short round");
        let faults = self.schedule.round(span_ms);
        self.crew.roam();
        let begun_ns = now_ns();
        let faults = self.under(faults, span_ms).await?;
        self.crew.lines.iter().for_each(tests::scene::Line::resume);
        let left = tokio::select! {
            left = self.crew.rest() => left,
            () = self.stop.told() => return Err(Verdict::Stopped),
        };
        let (events, killed) = self.crew.take_history();
        figures.count(&events, &faults, left.tasks);
        let kind = self.layout().kind();
        let had_killed = !killed.is_empty();
        let report = judge(kind, &mut self.memory, (events, killed), &faults);
        figures.add(&report.map_err(Verdict::Broken)?, now_ns() - begun_ns);
        if left.locks > 0 {
            return Err(Broken::plain(format!(
                "a finding of safety, V6: left in resting processes: {left:?}"
            )));
        }
        self.all_free(&faults, had_killed).await
    }

    /// Lets the processes run under these faults; those that were done.
    async fn under(&mut self, faults: Round, span_ms: u64) -> Result<Vec<Done>, Verdict> {
        let log = Arc::new(Log::default());
        let servers = {
            let (keys, log, stop) = (self.keys.clone(), log.clone(), self.stop.clone());
            let mut layout = self.layout.take().expect("the nemesis is done");
            spawn_blocking(move || {
                nemesis::servers(&faults.servers, &mut *layout, &keys.names, &log, &stop);
                layout
            })
        };
        let Crew { places, lines, ground, killed } = &mut self.crew;
        let (_, (), now_killed, layout) = tokio::join!(
            self.stop.wait(span_ms),
            nemesis::links(&faults.links, lines, &self.keys, &log, &self.stop),
            nemesis::processes(&faults.processes, (places, ground), &log, &self.stop),
            servers,
        );
        killed.extend(now_killed);
        if self.stop.is_told() {
            return Err(Verdict::Stopped);
        }
        self.layout = Some(layout.unwrap_or_else(|error| panic!("the servers: {error}")));
        Ok(Arc::into_inner(log).expect("all lanes have ended").take())
    }

    /// V6: everybody has let go, so each key is free, soon if somebody was killed.
    async fn all_free(&self, faults: &[Done], had_killed: bool) -> Result<(), Verdict> {
        let back: u64 = faults.iter().map(|done| done.back_ms).sum();
        let traces = grace(self.layout().kind().times(Tempo::Steady));
        let limit = if had_killed { traces + Duration::from_millis(back) } else { traces };
        let until = Instant::now() + limit;
        for key in &self.keys.names {
            while !block_in_place(|| self.layout().is_free(SCOPE, key)) {
                if Instant::now() > until {
                    return Err(Broken::plain(format!(
                        "a finding of safety, V6: nobody has {key}, and it is not free"
                    )));
                }
                self.stop.wait(20).await;
                if self.stop.is_told() {
                    return Err(Verdict::Stopped);
                }
            }
        }
        Ok(())
    }

    /// V6: when all processes have ended, nothing is left but what docs name.
    async fn end(&mut self, figures: &mut Figures) -> Verdict {
        self.crew.end().await;
        let ended = Instant::now();
        loop {
            let left = block_in_place(|| self.layout().left(SCOPE));
            figures.left = left.len();
            if left.is_empty() {
                return Verdict::Holds;
            }
            if ended.elapsed() > TRACES {
                return Broken::plain(format!(
                    "a finding of safety, V6: left at the store: {left:?}"
                ));
            }
            self.stop.wait(50).await;
            if self.stop.is_told() {
                return Verdict::Stopped;
            }
        }
    }
}

/// On standard error, and only if that is a terminal.
fn progress_bar(span: Duration) -> ProgressBar {
    let bar = ProgressBar::new(span.as_secs());
    if let Ok(style) = ProgressStyle::with_template("{elapsed:>4} [{bar:40}] {eta:>4} {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.tick();
    bar
}

//! Started layouts, shared by the scenes of one test binary.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use super::layout::{Kind, Layout, Power};
use lock_core::Mode;

use super::stage::{Seat, Stage};
use super::table::{Run, Scene};
use crate::blocked::alone;

/// One layout, started by the first scene that wants it.
///
/// Scenes use it together. One with a loud need waits until it has the layout for itself, and puts
/// it back as it was; should it fail, the next scene starts another.
#[derive(Debug)]
pub struct Pool {
    kind: &'static Kind,
    layout: RwLock<Option<Box<dyn Layout>>>,
}

impl Pool {
    /// An empty one.
    #[must_use]
    pub const fn new(kind: &'static Kind) -> Self {
        Self { kind, layout: RwLock::new(None) }
    }

    /// Plays a scene on the layout, or says why that cannot be.
    ///
    /// # Panics
    ///
    /// Where the scene fails.
    pub fn play(&self, scene: &Scene) {
        if let Some(why) = scene.cannot_be_on(self.kind) {
            println!("not on {}: {why}", self.kind.name);
            return;
        }
        let shares = self.kind.lacks(Power::Share).is_none();
        let modes = if shares { scene.modes() } else { &scene.modes()[..1] };
        if scene.is_loud() {
            modes.iter().for_each(|mode| self.play_in(*mode, scene));
        } else {
            std::thread::scope(|threads| {
                for mode in modes {
                    threads.spawn(|| self.play_in(*mode, scene));
                }
            });
        }
    }

    fn play_in(&self, mode: Mode, scene: &Scene) {
        static SCOPES: AtomicU32 = AtomicU32::new(0);
        let number = SCOPES.fetch_add(1, Ordering::Relaxed);
        let scope = format!("{}-{number}", scene.faults[0].to_lowercase());
        if scene.is_loud() {
            let mut place = self.layout.write().unwrap_or_else(PoisonError::into_inner);
            let layout = place.take().unwrap_or_else(|| self.start());
            let mut stage = Stage { seat: Seat::Alone(layout), scope, mode };
            perform(scene, &mut stage);
            let Seat::Alone(layout) = stage.seat else { unreachable!("it was alone") };
            alone().block_on(layout.settled());
            *place = Some(layout);
        } else {
            let seat = Seat::Shared(self.started());
            perform(scene, &mut Stage { seat, scope, mode });
        }
    }

    fn started(&self) -> RwLockReadGuard<'_, Option<Box<dyn Layout>>> {
        loop {
            let shared = self.layout.read().unwrap_or_else(PoisonError::into_inner);
            if shared.is_some() {
                return shared;
            }
            drop(shared);
            let mut place = self.layout.write().unwrap_or_else(PoisonError::into_inner);
            if place.is_none() {
                *place = Some(self.start());
            }
        }
    }

    fn start(&self) -> Box<dyn Layout> {
        alone().block_on((self.kind.start)())
    }
}

fn perform(scene: &Scene, stage: &mut Stage<'_>) {
    match scene.run {
        Run::Awaits(run) | Run::InModes(run) => alone().block_on(run(stage)),
        Run::Blocks(run) => run(stage),
    }
}

//! Every scene, and which faults it shows.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use super::faults;
use super::layout::{Kind, Power};
use super::stage::Stage;

/// How a scene is played.
#[derive(Clone, Copy)]
pub(super) enum Run {
    /// In a runtime of one thread.
    Awaits(for<'a> fn(&'a mut Stage<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>>),
    /// In runtimes that it makes itself.
    Blocks(fn(&mut Stage<'_>)),
}

/// A fault, done to a layout, and what must come of it.
pub struct Scene {
    /// What must come of it, as a sentence.
    pub name: &'static str,
    /// The faults of the matrix that it shows.
    pub faults: &'static [&'static str],
    /// What is done to the layout.
    pub needs: &'static [Power],
    pub(super) run: Run,
}

impl fmt::Debug for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Scene {
    /// The scene of this name.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn named(name: &str) -> &'static Self {
        SCENES.iter().find(|scene| scene.name == name).expect("a scene of the table")
    }

    /// Why it cannot be played on such a layout; `None` if it can.
    #[must_use]
    pub fn cannot_be_on(&self, kind: &Kind) -> Option<&'static str> {
        self.needs.iter().find_map(|need| kind.lacks(*need))
    }

    /// Whether it wants the layout for itself.
    #[must_use]
    pub fn is_loud(&self) -> bool {
        self.needs.iter().any(|need| need.is_loud())
    }
}

/// Names every scene to the macro `$run`, with `$args` before them: its faults, its needs, how it
/// is played, and where it is.
#[doc(hidden)]
#[macro_export]
macro_rules! __scenes {
    ($run:path, $($args:tt)*) => {
        $run! { $($args)*
            F18 [] awaits cancel an_acquire_that_was_never_polled_has_done_nothing;
            F18 [] awaits cancel an_acquire_dropped_after_its_first_poll_leaves_nothing;
            F18 [Trap] awaits cancel an_acquire_dropped_at_any_of_its_requests_leaves_nothing;
            F18 [Trap] awaits cancel an_acquire_dropped_while_its_reply_is_lost_leaves_nothing;
            F18 [] awaits cancel an_acquire_dropped_in_line_leaves_the_line;
            F18 [] awaits cancel an_acquire_dropped_in_line_leaves_the_place_to_those_behind_it;
            F18 [] awaits cancel an_acquire_dropped_with_a_grant_that_it_did_not_look_at_passes_it_on;
            F18 [] awaits cancel an_acquire_dropped_between_two_tries_leaves_nothing;
            F18 [] awaits cancel acquires_dropped_at_any_moment_under_contention_leave_nothing;
            F18 [] awaits cancel whatever_is_dropped_at_any_poll_leaves_the_lock_to_the_next;
            F18 [Trap] awaits cancel a_release_dropped_at_any_place_goes_on;
            F18 F19 [Trap] awaits cancel a_guard_dropped_while_its_release_is_lost_leaves_nothing;
            F11 [Trap] awaits replies an_acquire_whose_reply_is_swallowed_is_granted_once;
            F11 [Trap] awaits replies an_acquire_whose_request_is_lost_is_made_again;
            F11 [Trap] awaits replies a_try_whose_reply_is_swallowed_gives_its_grant_back;
            F11 [Trap] awaits replies a_waiter_whose_reply_is_swallowed_has_one_place_in_line;
            F12 [Trap] awaits replies a_release_whose_reply_is_swallowed_is_done;
            F12 [Trap] awaits replies a_repeated_release_leaves_the_next_holder_alone;
            F13 [Link] awaits replies a_hold_counts_from_the_last_answered_request;
            F13 [Trap Renewal] awaits replies renewals_go_on_after_one_that_failed;
            F11 F12 F13 [Trap] awaits replies any_one_fault_in_the_life_of_a_lock_leaves_it_usable;
        }
    };
}

macro_rules! table {
    ($($($fault:ident)+ [$($need:ident)*] $how:ident $module:ident $name:ident;)*) => {
        /// All scenes.
        pub const SCENES: &[Scene] = &[$(Scene {
            name: stringify!($name),
            faults: &[$(stringify!($fault)),+],
            needs: &[$(Power::$need),*],
            run: table!(@$how $module $name),
        }),*];
    };
    (@awaits $module:ident $name:ident) => {
        Run::Awaits(|stage| Box::pin(faults::$module::$name(stage)))
    };
    (@blocks $module:ident $name:ident) => {
        Run::Blocks(faults::$module::$name)
    };
}

__scenes! { table, }

/// Makes a test of every scene on one kind of layout, which they share: a constant of
/// [`layouts`](crate::scene::layouts). Once for each test binary, as it is a module's only content.
///
/// ```ignore
/// tests::scenes!(REDIS);
/// ```
#[macro_export]
macro_rules! scenes {
    ($kind:ident) => {
        static POOL: $crate::scene::Pool = $crate::scene::Pool::new(&$crate::scene::layouts::$kind);

        $crate::__scenes! { $crate::__scene_tests, }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __scene_tests {
    ($($($fault:ident)+ [$($need:ident)*] $how:ident $module:ident $name:ident;)*) => {
        $(
            #[test]
            fn $name() {
                let worker = std::path::Path::new(env!("CARGO_BIN_EXE_worker"));
                POOL.play($crate::scene::Scene::named(stringify!($name)), worker);
            }
        )*
    };
}

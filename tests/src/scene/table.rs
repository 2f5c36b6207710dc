//! Every scene, and which faults it shows.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use lock_core::Mode;

use super::faults;
use super::layout::{Kind, Power};
use super::stage::Stage;

/// How a scene is played.
#[derive(Clone, Copy)]
pub(super) enum Run {
    /// In a runtime of one thread.
    Awaits(for<'a> fn(&'a mut Stage<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>>),
    /// The same in each mode: of who holds the key alone, with other readers, and as the only permit.
    InModes(for<'a> fn(&'a mut Stage<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>>),
    /// In runtimes that it makes itself.
    Blocks(fn(&mut Stage<'_>)),
}

/// A fault, done to a layout, and what must come of it.
pub struct Scene {
    /// The outcome that it must have, as a sentence.
    pub name: &'static str,
    /// The faults of the matrix that it shows.
    pub faults: &'static [&'static str],
    /// The powers that it uses on the layout.
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
        self.needs.iter().find_map(|need| kind.lacks(*need)).or_else(|| kind.fails(self.name))
    }

    /// In which modes it is played, where a layout has them.
    #[must_use]
    pub fn modes(&self) -> &'static [Mode] {
        match self.run {
            Run::InModes(_) => &[Mode::Exclusive, Mode::Shared, Mode::Permit { of: 1 }],
            _ => &[Mode::Exclusive],
        }
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
            F13 [Link] in_modes replies a_hold_counts_from_the_last_answered_request;
            F13 [Trap] awaits replies renewals_go_on_after_one_that_failed;
            F11 F12 F13 [Trap] in_modes replies any_one_fault_in_the_life_of_a_lock_leaves_it_usable;
            F10 [Link] in_modes link a_holder_behind_a_black_hole_is_told_by_its_own_clock_before_another_is_granted;
            F10 [Link] awaits link a_release_into_a_black_hole_says_that_it_does_not_know_and_goes_on;
            F10 F14 [Link] awaits link an_acquire_into_a_black_hole_ends_with_its_budget_and_leaves_no_grant;
            F10 [Link] awaits link a_slow_link_is_not_a_broken_one;
            F25 [Link Push] awaits link a_waiter_whose_push_is_lost_is_granted_by_its_recheck;
            F25 [Link] awaits link a_waiter_whose_connections_were_cut_is_back_in_line_and_granted;
            F25 [Link] awaits link a_release_while_the_waiter_was_cut_off_is_seen_when_it_is_back;
            F43 [Link] awaits link connections_that_go_silent_cost_no_hold;
            F13 [Trap] awaits link no_renewal_is_sent_after_the_release;
            F13 [Trap] awaits link a_renewal_under_way_at_the_release_does_not_bring_the_lock_back;
            F01 [Process] in_modes processes a_frozen_holder_is_succeeded_and_what_it_writes_is_refused;
            F02 [Process] awaits processes a_process_whose_runtime_is_blocked_past_its_lease_keeps_its_lock;
            F03 [Process] in_modes processes the_key_of_a_killed_holder_is_granted_when_its_lease_has_ended;
            F05 [Process] awaits processes a_row_of_waiters_without_power_costs_no_more_than_one;
            F20 [Process] in_modes processes a_terminated_holder_gives_its_lock_back_before_its_lease_ends;
            F39 [Process] awaits processes a_starved_holder_renews_in_time_or_is_told;
            F04 [Process] awaits waiters killed_waiters_are_skipped_however_many_they_are;
            F04 [Process] awaits waiters frozen_waiters_cost_one_deadline_together;
            F04 [Process] awaits waiters a_thawed_waiter_does_not_use_a_grant_that_has_ended;
            F02 [Link] blocks blocked a_hold_is_kept_while_its_worker_is_blocked;
            F02 [Link] blocks blocked a_hold_is_kept_while_its_worker_and_who_waits_there_are_blocked;
            F02 [Link] blocks blocked a_wait_ends_in_time_while_a_worker_is_blocked;
            F02 [Link] blocks blocked a_loss_is_told_in_time_while_a_worker_is_blocked;
            F02 [Link] blocks blocked a_blocked_runtime_loses_nothing_for_the_others;
            F02 [Link] blocks blocked a_task_that_lets_go_and_computes_holds_up_nobody;
            F02 [Link] blocks blocked an_executor_without_timers_is_served;
            F19 [] awaits client a_dropped_guard_is_released_wherever_it_is_dropped;
            F19 [Link] blocks client guards_dropped_during_the_shutdown_of_their_runtime_neither_panic_nor_block;
            F19 [Link] blocks client a_guard_that_outlives_its_runtime_is_kept_and_can_be_given_back;
            F19 [Link] blocks client a_client_that_outlives_its_runtime_serves_another;
            F20 [] awaits client a_shutdown_gives_everything_back_and_says_so;
            F36 [] awaits client a_task_that_locks_a_key_twice_is_told_or_re_enters;
            F36 [] awaits client two_keys_in_opposite_order_end_at_the_budget;
            F06 [Kill] in_modes server a_restart_keeps_a_hold_or_tells_the_holder_and_takes_no_token_back;
            F06 [Kill] awaits server a_holder_is_told_while_its_servers_are_away_and_has_the_key_when_they_are_back;
            F14 [Pause] awaits server servers_that_hang_bound_nobody_and_leave_no_late_grant;
            F14 [Pause] awaits server a_holder_is_told_while_its_servers_hang;
            F16 F40 [Clock] awaits server tokens_grow_whatever_the_clocks_of_the_servers_do;
            F29 [Delete] awaits data a_lock_that_is_deleted_by_hand_is_told_and_passes_on;
            F33 [] awaits data strange_keys_are_locks_of_their_own;
            F33 [] awaits data clients_of_two_prefixes_have_no_key_in_common;
            F33 [] awaits data an_inspection_says_who_holds_a_key_and_who_waits;
            F33 [] awaits data empty_and_enormous_keys_are_refused_and_nothing_is_sent;
            F35 [] awaits data many_keys_used_once_each_leave_nothing;
            F45 [] awaits modes readers_and_permits_are_had_or_refused_by_name;
            F45 [Share] awaits modes nobody_is_beside_a_writer_and_no_number_is_had_twice;
            F45 [Share] awaits modes a_stream_of_readers_starves_no_writer_nor_one_of_writers_a_reader;
            F45 [Share] awaits modes a_downgrade_lets_in_the_readers_behind_it_and_nobody_between;
            F46 [Share Process] awaits modes a_dead_holder_among_others_frees_its_share_when_its_lease_ends;
            F47 [Share] awaits modes another_number_of_permits_counts_once_the_key_is_free;
            F10 F11 F12 F13 F14 F18 F25 [Link] awaits chaos links_that_fail_at_random_cost_no_exclusion_and_leave_nothing;
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
    (@in_modes $module:ident $name:ident) => {
        Run::InModes(|stage| Box::pin(faults::$module::$name(stage)))
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
                POOL.play($crate::scene::Scene::named(stringify!($name)));
            }
        )*
    };
}

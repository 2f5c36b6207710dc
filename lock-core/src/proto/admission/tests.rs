//! Estimates over holds and turns of all kinds.

use super::*;
use crate::ground::clock;
use proptest::prelude::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn ahead(here: usize) -> Ahead {
    Ahead { here, claims: 0, counted: Duration::ZERO }
}

/// A key that was held for each of `holds` in turn, with somebody waiting all along.
fn after(holds: impl IntoIterator<Item = Duration>) -> (Admission, Instant) {
    let mut now = clock::now();
    let mut admission = Admission::new(now);
    admission.begins(now);
    for hold in holds {
        now += hold;
        admission.released(hold);
        admission.granted(hold, now);
    }
    (admission, now)
}

#[test]
fn nothing_is_refused_before_eight_samples() {
    let (admission, now) = after([ms(10); 7]);
    assert_eq!(admission.estimate(ahead(1_000), now), None);
    assert_eq!(admission.refuses(ahead(1_000), ms(1), ms(1), now), None);
    assert!(!admission.is_in_vain(1_000, ms(1)));
    let (admission, now) = after([ms(10); 8]);
    assert_eq!(admission.estimate(ahead(1_000), now), Some(ms(10_000)));
}

#[test]
fn the_estimate_is_what_the_current_hold_has_left_and_one_mean_for_each_other() {
    let (admission, granted) = after([ms(10); 50]);
    let cases = [(1, 0, 10), (1, 4, 6), (1, 10, 0), (3, 4, 26), (101, 0, 1_010)];
    for (here, age, expected) in cases {
        assert_eq!(admission.estimate(ahead(here), granted + ms(age)), Some(ms(expected)));
    }
}

#[test]
fn a_stuck_holder_closes_the_door_behind_it() {
    let (admission, granted) = after([ms(10); 50]);
    let late = granted + ms(3_000);
    assert_eq!(admission.estimate(ahead(1), late), Some(ms(2_990)));
    assert!(admission.refuses(ahead(2), ms(2_000), ms(2_000), late).is_some());
}

#[test]
fn one_pause_does_not_close_it_for_long() {
    let (mut admission, mut now) = after([ms(10); 50]);
    now += ms(60_000);
    admission.released(ms(60_000));
    admission.granted(ms(60_000), now);
    let estimate = admission.estimate(ahead(100), now).unwrap();
    assert!(estimate < ms(1_700), "{estimate:?}");
    for _ in 0..64 {
        now += ms(10);
        admission.released(ms(10));
        admission.granted(ms(10), now);
    }
    let estimate = admission.estimate(ahead(100), now).unwrap();
    assert!(estimate < ms(1_250), "{estimate:?}");
}

#[test]
fn time_in_which_nobody_waited_is_no_occupancy() {
    let (mut admission, mut now) = after([ms(10); 50]);
    for _ in 0..50 {
        now += ms(10);
        admission.released(ms(10));
        admission.idle(now);
        now += ms(10_000);
        admission.granted(Duration::ZERO, now);
    }
    assert_eq!(admission.estimate(ahead(2), now), Some(ms(20)));
}

#[test]
fn the_turns_of_other_processes_count() {
    for (hold_us, per_turn, processes) in
        [(5_000, 4, 4), (1_000, 20, 4), (1_000, 20, 10), (300, 64, 10), (1_000, 20, 50)]
    {
        let hold = Duration::from_micros(hold_us);
        let mut now = clock::now();
        let mut admission = Admission::new(now);
        let truth = hold * processes;
        let mut estimates = Vec::new();
        for nth in 1..=per_turn * 40 {
            now += hold;
            admission.released(hold);
            if nth % per_turn == 0 {
                // Each of the others has as many.
                now += hold * per_turn * (processes - 1);
            }
            admission.granted(hold, now);
            if nth > per_turn * 30 {
                let estimate = admission.estimate(ahead(1_000), now).unwrap();
                estimates.push(estimate.as_secs_f64() / truth.as_secs_f64() / 1_000.0);
            }
        }
        let (least, most) = estimates
            .iter()
            .fold((f64::MAX, 0.0_f64), |(least, most), &at| (least.min(at), most.max(at)));
        let case = format!("{hold:?}, {per_turn} each of {processes}: {least:.2} to {most:.2}");
        assert!(least > 0.6 && most < 3.0, "{case}");
        assert!(admission.median_hold() < hold * 2, "{case}");
    }
}

#[test]
fn a_slow_start_does_not_close_the_door() {
    for first in [ms(1_000), ms(3_000), Duration::from_secs(3_600)] {
        let (admission, now) = after(std::iter::once(first).chain([ms(10); 7]));
        let let_in = (1..1_000)
            .filter(|&here| admission.refuses(ahead(here), ms(4_000), ms(4_000), now).is_none());
        // 400 are to be had; the first is an outlier of eight times the others.
        assert!(let_in.count() > 80, "{first:?}");
    }
}

#[test]
fn the_first_holds_of_a_rush_are_not_taken_for_the_rest() {
    // Each client's connection is served as well, for a while.
    let slow_start = (0..12).map(|nth| ms(30 + 20 * (12 - nth)));
    let (admission, now) = after(slow_start);
    assert!(admission.estimate(ahead(50), now).unwrap() > ms(5_000));
    assert_eq!(admission.refuses(ahead(50), ms(4_000), ms(4_000), now), None);
    assert!(!admission.is_in_vain(50, ms(4_000)));
    assert!(admission.is_in_vain(150, ms(4_000)), "even at 30 ms each");
}

#[test]
fn what_was_long_before_anybody_waited_is_no_sample() {
    let mut now = clock::now();
    let mut admission = Admission::new(now);
    now += Duration::from_secs(3_600);
    for _ in 0..9 {
        now += ms(10);
        admission.released(ms(10));
        admission.granted(ms(10), now);
    }
    assert_eq!(admission.estimate(ahead(1), now), Some(ms(10)));
}

#[test]
fn long_holds_that_come_back_count_in_full() {
    let holds = (0..400).map(|nth| if nth % 40 == 39 { ms(500) } else { ms(10) });
    let (admission, now) = after(holds);
    let estimate = admission.estimate(ahead(400), now).unwrap();
    // 390 of 10 ms and ten of 500 ms.
    assert!(estimate > ms(8_000), "{estimate:?}");
}

#[test]
fn holds_that_have_become_shorter_let_more_in_at_once() {
    let holds = std::iter::repeat_n(ms(100), 2_000).chain(std::iter::repeat_n(ms(10), 300));
    let (admission, now) = after(holds);
    assert!(admission.refuses(ahead(250), ms(4_000), ms(4_000), now).is_none());
    assert!(!admission.is_in_vain(300, ms(4_000)));
    assert!(admission.median_hold() < ms(20));
}

#[test]
fn claims_ahead_at_the_store_take_a_hold_each() {
    let (admission, now) = after([ms(10); 50]);
    let estimate =
        admission.estimate(Ahead { here: 1, claims: 100, counted: Duration::ZERO }, now).unwrap();
    assert!((ms(870)..ms(1_130)).contains(&estimate), "{estimate:?}");
}

#[test]
fn a_budget_must_hold_the_hold_too_unless_that_is_hopeless() {
    let (admission, now) = after([ms(100); 50]);
    let needed = admission.needed(ms(1_000));
    assert!((ms(87)..ms(113)).contains(&needed), "{needed:?}");
    assert_eq!(admission.needed(ms(150)), Duration::ZERO);
    assert!(admission.refuses(ahead(2), ms(250), ms(1_000), now).is_some());
    assert!(admission.refuses(ahead(2), ms(350), ms(1_000), now).is_none());
}

proptest! {
    /// A waiter that is let in waits no longer than its budget, in 19 of 20 cases.
    #[test]
    fn those_who_are_let_in_are_served_in_time(
        mean_us in 100_u64..50_000,
        spread in 0.0..0.9_f64,
        tail in 0.05..0.5_f64,
        longer in 1.0..10.0_f64,
        seed: u64,
        budget_ms in 500_u64..5_000,
    ) {
        let mut random = fastrand_like(seed);
        let mut hold = || {
            let unit = random() * 2.0 - 1.0;
            let times = if random() < tail { longer } else { 1.0 };
            Duration::from_micros(mean_us).mul_f64(times * (1.0 + spread * unit))
        };
        let (mut late, mut let_in) = (0, 0);
        for _ in 0..100 {
            let (admission, now) = after((0..256).map(|_| hold()));
            let budget = ms(budget_ms);
            // The longest line that is let in.
            let is_in = |&here: &usize| {
                admission.refuses(ahead(here), budget, budget, now).is_none()
            };
            let here = (1..20).map(|power| 1 << power).take_while(is_in).last();
            let Some(half) = here else { continue };
            let here = (half..2 * half).step_by(half.div_ceil(64)).take_while(is_in).last();
            let_in += 1;
            let wait: Duration = (0..here.unwrap_or(half)).map(|_| hold()).sum();
            late += usize::from(wait > budget);
        }
        // One of 20 where holds are even; more where a few are far longer than the others.
        prop_assert!(late * 4 <= let_in.max(20), "{late} of {let_in}");
    }
}

/// SplitMix64, by Sebastiano Vigna (2015), as numbers from 0 to 1.
fn fastrand_like(mut state: u64) -> impl FnMut() -> f64 {
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64
    }
}

//! Random histories; what must hold is in [`World`].

use proptest::prelude::*;

use super::super::*;
use super::world::{World, ms, replicated};
use crate::backend::Mode;

#[derive(Debug, Clone)]
enum Event {
    Enter {
        wait: u64,
        queues: bool,
        admission: bool,
        handoffs: u32,
        slice: u64,
        limit: Option<u64>,
        linger: u64,
        lease: u64,
        replicas: u32,
        most: usize,
        shared: bool,
        min_hold: u64,
    },
    Cancel(prop::sample::Index),
    Read(prop::sample::Index),
    Release(prop::sample::Index),
    Answer {
        tokens: u64,
        wanted: bool,
        revoke: bool,
        served: bool,
        part: u32,
    },
    Watch(prop::sample::Index, bool),
    Silence,
    Left,
    Push,
    Advance(u64),
    Drive,
}

fn event() -> impl Strategy<Value = Event> {
    let enter = (
        1_u64..3_000,
        prop::bool::weighted(0.8),
        any::<bool>(),
        prop_oneof![Just(0), Just(1), Just(2), Just(64)],
        prop_oneof![Just(0_u64), Just(5), Just(20)],
        prop::option::weighted(0.2, 1_u64..500),
        prop_oneof![4 => Just(0_u64), 1 => 1_u64..200],
        prop_oneof![4 => Just(900_u64), 1 => Just(300), 1 => Just(1_800)],
        prop_oneof![4 => Just(0_u32), 1 => 1_u32..3],
        (
            prop_oneof![4 => Just(8_usize), 1 => 1_usize..4],
            any::<bool>(),
            prop_oneof![6 => Just(0_u64), 1 => 1_u64..1_500],
        ),
    );
    let answer = (
        prop_oneof![1 => Just(0_u64), 4 => 1_u64..6],
        any::<bool>(),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.8),
        prop_oneof![4 => Just(1_u32), 1 => 2_u32..6],
    );
    prop_oneof![
        6 => enter.prop_map(
            |(wait, queues, admission, handoffs, slice, limit, linger, lease, replicas, last)| {
                let (most, shared, min_hold) = last;
                Event::Enter {
                    wait, queues, admission, handoffs, slice, limit, linger, lease, replicas, most,
                    shared, min_hold,
                }
            },
        ),
        1 => any::<prop::sample::Index>().prop_map(Event::Cancel),
        6 => any::<prop::sample::Index>().prop_map(Event::Read),
        6 => any::<prop::sample::Index>().prop_map(Event::Release),
        6 => answer.prop_map(|(tokens, wanted, revoke, served, part)| {
            Event::Answer { tokens, wanted, revoke, served, part }
        }),
        1 => (any::<prop::sample::Index>(), any::<bool>())
            .prop_map(|(index, revoke)| Event::Watch(index, revoke)),
        1 => Just(Event::Silence),
        3 => Just(Event::Left),
        1 => Just(Event::Push),
        3 => (0_u64..60).prop_map(Event::Advance),
        1 => (60_u64..1_500).prop_map(Event::Advance),
        1 => Just(Event::Drive),
    ]
}

fn happen(world: &mut World, event: Event) {
    match event {
        Event::Enter {
            wait,
            queues,
            admission,
            handoffs,
            slice,
            limit,
            linger,
            lease,
            replicas,
            most,
            shared,
            min_hold,
        } => {
            let mode = if shared && world.shares { Mode::Shared } else { Mode::Exclusive };
            let ask = Ask {
                admission,
                handoffs_max: handoffs,
                slice: ms(slice),
                hold_limit: limit.map(ms),
                linger: ms(linger),
                min_hold: if mode == Mode::Shared { ms(0) } else { ms(min_hold) },
                terms: Terms { queues, mode, ..replicated(ms(lease), replicas, ms(1)) },
                ..world.ask(ms(wait))
            };
            world.enter(ask, most);
        }
        Event::Cancel(index) if world.waiting.len() + world.told.len() > 0 => {
            world.cancel(index.index(world.waiting.len() + world.told.len()));
        }
        Event::Read(index) if !world.told.is_empty() => {
            world.read(index.index(world.told.len()));
        }
        Event::Release(index) if !world.guards.is_empty() => {
            world.release(index.index(world.guards.len()));
        }
        Event::Answer { tokens, wanted, revoke, served, part } => {
            (world.revoke, world.part) = (revoke, part);
            world.answer(Some((tokens, wanted)), served);
        }
        Event::Watch(index, revoke) if !world.guards.is_empty() => {
            let event = if revoke {
                super::super::Event::RevokeRequested
            } else {
                super::super::Event::Lost
            };
            world.watch(index.index(world.guards.len()), event);
        }
        Event::Silence => world.answer(None, false),
        Event::Left => world.left(),
        Event::Push => world.push(),
        Event::Advance(by) => world.advance(ms(by)),
        Event::Drive => world.drive(),
        Event::Cancel(_) | Event::Read(_) | Event::Release(_) | Event::Watch(..) => {}
    }
}

/// At least a thousand; `PROPTEST_CASES` may ask for more.
fn cases() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases.max(1_000), failure_persistence: None, ..config }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn whatever_happens_one_holds_or_readers_do_tokens_grow_and_nobody_is_forgotten(
        events in prop::collection::vec(event(), 1..120),
        at_once in any::<bool>(),
        shares in any::<bool>(),
    ) {
        let mut world = World::new();
        world.shares = shares;
        for event in events {
            happen(&mut world, event);
            // A driver that is poked runs sooner or later.
            if at_once {
                world.turn();
            }
        }
        world.finish();
    }
}

use super::*;

fn one() -> Arc<str> {
    "one".into()
}

fn join(channels: &Channels, claim: u128) {
    let mut named = lock(&channels.named);
    named.entry(one()).or_default().claims.push(ClaimId::from_bits(claim));
}

fn due(channels: &Channels, over: u64) -> [usize; 2] {
    let (begin, end) = channels.due(&[one()], over);
    [begin.len(), end.len()]
}

const NEITHER: [usize; 2] = [0, 0];
const BEGIN: [usize; 2] = [1, 0];
const END: [usize; 2] = [0, 1];

#[test]
fn a_channel_is_told_once_for_all_who_wait_and_given_up_with_the_last() {
    let channels = Channels::default();
    let [first, second] = [1, 2].map(ClaimId::from_bits);
    join(&channels, 1);
    join(&channels, 2);
    assert_eq!([due(&channels, 0), due(&channels, 0)], [BEGIN, NEITHER]);
    channels.leave(&one(), first);
    assert_eq!(due(&channels, 0), NEITHER);
    channels.leave(&one(), second);
    // It is wanted again before anybody looked.
    join(&channels, 3);
    assert_eq!(due(&channels, 0), NEITHER);
    channels.leave(&one(), ClaimId::from_bits(3));
    assert_eq!([due(&channels, 0), due(&channels, 0)], [END, NEITHER]);
    assert!(lock(&channels.named).is_empty());
}

#[test]
fn over_a_new_connection_all_that_is_wanted_is_asked_for_and_nothing_over_an_old_one() {
    let channels = Channels::default();
    join(&channels, 1);
    assert_eq!(due(&channels, 0), BEGIN);
    channels.heard(&[one()], 0);
    assert_eq!(channels.all(1).len(), 1);
    // The task had looked at the connection before.
    assert_eq!(due(&channels, 0), NEITHER);
    channels.heard(&[one()], 0);
    assert_eq!(lock(&channels.named)[&one()].told, Told::Asked(1));
    channels.heard(&[one()], 1);
    assert_eq!(lock(&channels.named)[&one()].told, Told::Heard(1));
    // It was never asked for over this one, so there is nothing to end.
    channels.leave(&one(), ClaimId::from_bits(1));
    assert_eq!(due(&channels, 2), NEITHER);
    assert!(lock(&channels.named).is_empty() && channels.all(3).is_empty());
}

/// Its claim leaves while the connection is made, when there is none to end it over.
#[test]
fn a_channel_that_was_left_meanwhile_is_looked_at_when_there_is_a_connection() {
    let channels = Channels::default();
    let (look, mut looks) = mpsc::unbounded_channel();
    channels.join(&one(), ClaimId::from_bits(1), || look);
    assert_eq!((channels.all(1).len(), looks.try_recv()), (1, Ok(one())));
    channels.leave(&one(), ClaimId::from_bits(1));
    assert_eq!((looks.try_recv(), due(&channels, 0)), (Ok(one()), NEITHER));
    channels.opened(1);
    assert_eq!((looks.try_recv(), due(&channels, 1)), (Ok(one()), END));
}

#[test]
fn a_channel_that_was_refused_is_asked_for_again_with_the_next_look() {
    let channels = Channels::default();
    join(&channels, 1);
    assert_eq!(due(&channels, 0), BEGIN);
    assert!(channels.is_told("one", 0) && !channels.is_told("one", 1));
    channels.unheard(&[one()], 0);
    assert!(!channels.is_told("one", 0));
    assert_eq!(due(&channels, 0), BEGIN);
}

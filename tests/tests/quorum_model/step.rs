//! Every step that a member, a client or a message can take.

use stateright::{Model, Property};

use crate::client::CLIENTS_MAX;
use crate::member::{MEMBERS, Set};
use crate::network::Message;
use crate::properties;
use crate::rules::Rules;
use crate::system::System;

/// A step. Each is one instant at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A message arrives.
    Deliver(Message),
    /// A message arrives, and will arrive again.
    DeliverTwice(Message),
    /// A client fixes its token, when the answers of the members `heard` have arrived.
    Decide { client: usize, heard: Set },
    /// A client gives its claim up, held or not, and begins the next one. With `heard`, the
    /// answers under way arrive before.
    GiveUp { client: usize, heard: bool },
    /// A lease ends at a member, or a withdrawal arrives there, when its claim is over.
    Free { member: usize },
    /// A lease ends at a member although its claim is not over.
    EndEarly { member: usize },
    /// A member loses its data.
    Lose { member: usize },
    /// How far another member is, is read to repair a member.
    Read { member: usize, other: usize },
    /// A member that lost its data grants again.
    Return { member: usize },
}

impl Model for Rules {
    type State = System;
    type Action = Step;

    fn init_states(&self) -> Vec<System> {
        vec![System::new(self)]
    }

    fn actions(&self, state: &System, steps: &mut Vec<Step>) {
        for client in 0..CLIENTS_MAX {
            state.steps_of_client(client, steps);
        }
        for message in state.network.iter().filter(|message| state.matters(self, message)) {
            steps.push(Step::Deliver(*message));
            if state.duplicates > 0 {
                steps.push(Step::DeliverTwice(*message));
            }
        }
        for member in 0..MEMBERS {
            state.steps_of_member(self, member, steps);
        }
    }

    fn next_state(&self, last: &System, step: Step) -> Option<System> {
        let mut state = last.clone();
        match step {
            Step::Deliver(message) => {
                state.network.take(&message);
                state.deliver(self, message);
            }
            Step::DeliverTwice(message) => {
                state.duplicates -= 1;
                state.deliver(self, message);
            }
            Step::Decide { client, heard } => state.decide(self, client, heard),
            Step::GiveUp { client, heard } => state.give_up(client, heard),
            Step::Free { member } => state.members[member].free(),
            Step::EndEarly { member } => {
                state.early_ends -= 1;
                state.members[member].free();
            }
            Step::Lose { member } => state.lose(self, member),
            Step::Read { member, other } => {
                let reached = state.members[other].reached(self);
                state.readings[member].note(other, reached);
            }
            Step::Return { member } => state.come_back(self, member),
        }
        // A step that changes nothing is none.
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all(self)
    }
}

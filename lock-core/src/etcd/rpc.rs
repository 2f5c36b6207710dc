//! One request over one channel, and whether it has left.
//!
//! A message leaves when the connection takes it, not when it is handed in: before that a
//! connection may still be made, or a login be asked for. A message that never left has never run,
//! and one that has left may run at any time. The two are told apart here, and nowhere else.

use std::sync::{Arc, Mutex};
use std::task::Poll;

use futures_util::{Stream, stream};
use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::fault::Failure;
use crate::ground::lock;

/// The largest answer: a line of some hundred thousand claims.
const ANSWER_BYTES_MAX: usize = 64 << 20;

pub(super) type Answer<T> = Result<T, Failure>;

/// Whether the message of one request has left.
#[derive(Debug, Clone, Default)]
pub(super) struct Departure(Arc<Mutex<State>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    // ## Waiting => (Left | CalledOff)
    #[default]
    Waiting,
    /// It may have run, and may do so later.
    Left,
    /// It never ran, and never will.
    CalledOff,
}

impl Departure {
    /// Whether the message may leave, which it has from now on.
    fn leave(&self) -> bool {
        self.becomes(State::Left)
    }

    /// Keeps the message from leaving; `false` if it has left.
    pub(super) fn call_off(&self) -> bool {
        self.becomes(State::CalledOff)
    }

    fn becomes(&self, wanted: State) -> bool {
        let mut state = lock(&self.0);
        if *state == State::Waiting {
            *state = wanted;
        }
        *state == wanted
    }

    /// The message, once the connection asks for it, and nothing if it was called off.
    fn carry<Q>(&self, message: Q) -> impl Stream<Item = Q> + Send + use<Q>
    where
        Q: Send + Unpin + 'static,
    {
        let (departure, mut message) = (self.clone(), Some(message));
        stream::poll_fn(move |_| Poll::Ready(message.take().filter(|_| departure.leave())))
    }
}

/// Sends one message, for one answer.
pub(super) async fn unary<Q, R>(
    channel: &Channel,
    path: &'static str,
    request: Request<Q>,
    departure: &Departure,
) -> Answer<R>
where
    Q: Message + Unpin + 'static,
    R: Message + Default + 'static,
{
    let mut grpc = ready_on(channel).await?;
    let path = PathAndQuery::from_static(path);
    let request = carried(request, departure);
    // On the wire a stream of one message is what a single one is.
    let answer = grpc.client_streaming(request, path, ProstCodec::<Q, R>::default()).await;
    answer.map(tonic::Response::into_inner).map_err(Failure::of)
}

/// The request, whose message leaves when the connection takes it.
pub(super) fn carried<Q>(
    request: Request<Q>,
    departure: &Departure,
) -> Request<impl Stream<Item = Q> + Send + use<Q>>
where
    Q: Send + Unpin + 'static,
{
    request.map(|message| departure.carry(message))
}

/// Opens a stream of answers to a stream of messages.
pub(super) async fn streaming<Q, R>(
    channel: &Channel,
    path: &'static str,
    request: Request<impl Stream<Item = Q> + Send + 'static>,
) -> Answer<Streaming<R>>
where
    Q: Message + 'static,
    R: Message + Default + 'static,
{
    let mut grpc = ready_on(channel).await?;
    let path = PathAndQuery::from_static(path);
    let answer = grpc.streaming(request, path, ProstCodec::<Q, R>::default()).await;
    answer.map(tonic::Response::into_inner).map_err(Failure::of)
}

async fn ready_on(channel: &Channel) -> Answer<Grpc<Channel>> {
    let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX);
    match grpc.ready().await {
        Ok(()) => Ok(grpc),
        Err(error) => Err(Failure::of(Status::from_error(error.into()))),
    }
}

#[cfg(test)]
mod tests {
    use futures_executor::block_on_stream;

    use super::*;

    #[test]
    fn a_message_that_was_called_off_never_leaves() {
        let departure = Departure::default();
        let carried = departure.carry(7);
        assert!(departure.call_off());
        assert_eq!(block_on_stream(carried).count(), 0);
    }

    #[test]
    fn a_message_that_has_left_cannot_be_called_off() {
        let departure = Departure::default();
        assert_eq!(block_on_stream(departure.carry(7)).collect::<Vec<_>>(), [7]);
        assert!(!departure.call_off());
    }
}

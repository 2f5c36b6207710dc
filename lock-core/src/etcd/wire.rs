//! The messages of etcd's public API that locks need, with its field numbers.

use prost::{Enumeration, Message, Oneof};

/// The head of every answer.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Header {
    /// The revision of the store when the answer was made; of a write, its own.
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
    /// The term of the leader, as the answering member knows it.
    #[prost(uint64, tag = "4")]
    pub(super) raft_term: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub(super) create_revision: i64,
    #[prost(int64, tag = "3")]
    pub(super) mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) value: Vec<u8>,
    /// The lease with which it ends; 0 for none.
    #[prost(int64, tag = "6")]
    pub(super) lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) limit: i64,
    #[prost(enumeration = "SortOrder", tag = "5")]
    pub(super) sort_order: i32,
    #[prost(enumeration = "SortTarget", tag = "6")]
    pub(super) sort_target: i32,
    #[prost(bool, tag = "8")]
    pub(super) keys_only: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(super) enum SortOrder {
    None = 0,
    Ascend = 1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(super) enum SortTarget {
    Key = 0,
    Create = 2,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) lease: i64,
    #[prost(bool, tag = "6")]
    pub(super) ignore_lease: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RequestOp {
    #[prost(oneof = "Op", tags = "1, 2, 3")]
    pub(super) op: Option<Op>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Op {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeRequest),
}

impl From<Op> for RequestOp {
    fn from(op: Op) -> Self {
        Self { op: Some(op) }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResponseOp {
    #[prost(message, optional, tag = "1")]
    pub(super) range: Option<RangeResponse>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Compare {
    #[prost(enumeration = "CompareResult", tag = "1")]
    pub(super) result: i32,
    #[prost(enumeration = "CompareTarget", tag = "2")]
    pub(super) target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) key: Vec<u8>,
    #[prost(oneof = "With", tags = "5, 6")]
    pub(super) with: Option<With>,
    #[prost(bytes = "vec", tag = "64")]
    pub(super) range_end: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub(super) enum With {
    #[prost(int64, tag = "5")]
    Create(i64),
    #[prost(int64, tag = "6")]
    Mod(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(super) enum CompareResult {
    Equal = 0,
    Less = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(super) enum CompareTarget {
    Version = 0,
    Create = 1,
    Mod = 2,
}

impl Compare {
    /// The key was created at this revision; 0 where it is not to be there.
    pub(super) fn created(key: &[u8], revision: i64) -> Self {
        Self {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Create.into(),
            key: key.to_vec(),
            with: Some(With::Create(revision)),
            range_end: Vec::new(),
        }
    }

    /// The key was written last at this revision.
    pub(super) fn written(key: &[u8], revision: i64) -> Self {
        let with = Some(With::Mod(revision));
        Self { target: CompareTarget::Mod.into(), with, ..Self::created(key, revision) }
    }

    /// No key of this range was written after this revision.
    pub(super) fn unwritten_since(range: &Range, revision: i64) -> Self {
        Self {
            result: CompareResult::Less.into(),
            range_end: range.end.clone(),
            ..Self::written(&range.begin, revision.saturating_add(1))
        }
    }
}

/// All keys from one on, up to another that is not among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) begin: Vec<u8>,
    /// Empty where it is one key.
    pub(super) end: Vec<u8>,
}

impl Range {
    pub(super) fn one(key: &[u8]) -> Self {
        Self { begin: key.to_vec(), end: Vec::new() }
    }

    /// All keys of this range that begin with the prefix and a digit from `first` to `last`.
    pub(super) fn between(prefix: &[u8], first: u8, last: u8) -> Self {
        let with = |byte: u8| [prefix, &[byte]].concat();
        Self { begin: with(first), end: with(last.saturating_add(1)) }
    }

    /// All keys that begin so, which ends with a byte below 255.
    pub(super) fn prefix(begin: &[u8]) -> Self {
        let mut end = begin.to_vec();
        end.last_mut().into_iter().for_each(|last| *last = last.saturating_add(1));
        Self { begin: begin.to_vec(), end }
    }

    /// Reads them in the order of their creation.
    pub(super) fn read(&self, limit: i64) -> RangeRequest {
        RangeRequest {
            key: self.begin.clone(),
            range_end: self.end.clone(),
            limit,
            sort_order: SortOrder::Ascend.into(),
            sort_target: SortTarget::Create.into(),
            keys_only: false,
        }
    }

    /// Reads the first of their names, in the order of these. Where an order is asked for, a member
    /// reads all and sorts them before it looks at the limit.
    pub(super) fn names(&self, limit: i64) -> RangeRequest {
        let (sort_order, sort_target) = (SortOrder::None.into(), SortTarget::Key.into());
        RangeRequest { sort_order, sort_target, keys_only: true, ..self.read(limit) }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub(super) failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub(super) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(super) responses: Vec<ResponseOp>,
}

/// The revision of an answer, and what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AsOf {
    /// It was made when the store had this one.
    Read(i64),
    /// The store has this one by it.
    Written(i64),
}

impl RangeResponse {
    pub(super) fn as_of(&self) -> AsOf {
        AsOf::Read(self.header.map_or(0, |header| header.revision))
    }
}

impl TxnResponse {
    pub(super) fn revision(&self) -> i64 {
        self.header.map_or(0, |header| header.revision)
    }

    /// All of ours write where they succeed, and only then.
    pub(super) fn as_of(&self) -> AsOf {
        match self.succeeded {
            true => AsOf::Written(self.revision()),
            false => AsOf::Read(self.revision()),
        }
    }

    /// The keys that the operation at this place has read.
    pub(super) fn read_at(&self, place: usize) -> &[KeyValue] {
        let range = self.responses.get(place).and_then(|response| response.range.as_ref());
        range.map_or(&[], |range| &range.kvs)
    }
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct LeaseGrantRequest {
    /// In seconds.
    #[prost(int64, tag = "1")]
    pub(super) ttl: i64,
    #[prost(int64, tag = "2")]
    pub(super) id: i64,
}

/// The answer to a grant and to a keepalive: the fields are the same.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct LeaseResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    /// In seconds; 0 where there is no such lease.
    #[prost(int64, tag = "3")]
    pub(super) ttl: i64,
}

/// The request of a keepalive and of a revocation. Without an id it is empty, as is the request of
/// a status.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct LeaseRequest {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
}

/// An answer of which nothing is looked at.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Done {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchRequest {
    #[prost(oneof = "WatchAsked", tags = "1, 2")]
    pub(super) asked: Option<WatchAsked>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum WatchAsked {
    #[prost(message, tag = "1")]
    Create(WatchCreate),
    #[prost(message, tag = "2")]
    Cancel(WatchCancel),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchCreate {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
    #[prost(enumeration = "Filter", repeated, tag = "5")]
    pub(super) filters: Vec<i32>,
    #[prost(int64, tag = "7")]
    pub(super) watch_id: i64,
}

/// The events that are of no interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(super) enum Filter {
    Puts = 0,
    Deletions = 1,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct WatchCancel {
    #[prost(int64, tag = "1")]
    pub(super) watch_id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(int64, tag = "2")]
    pub(super) watch_id: i64,
    /// It answers the request for this watch.
    #[prost(bool, tag = "3")]
    pub(super) created: bool,
    #[prost(bool, tag = "4")]
    pub(super) canceled: bool,
    #[prost(message, repeated, tag = "11")]
    pub(super) events: Vec<Event>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    /// The key of a deletion, and its revision.
    #[prost(message, optional, tag = "2")]
    pub(super) kv: Option<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) password: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub(super) token: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StatusResponse {
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

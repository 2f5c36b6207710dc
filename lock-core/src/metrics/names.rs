//! The names, as a recorder sees them.

/// How long an acquire took, from its first poll to its end. Label `outcome`: `granted`,
/// `timeout`, `overloaded`, `unavailable`, `rejected`, `closed`, or `cancelled` if it was
/// dropped before. An acquire that re-enters a hold at once, without a wait for a call
/// beside it, is none. Label `name`: that of the acquire, if it has one.
pub const WAIT_SECONDS: &str = "lock_wait_seconds";
/// How long a key was held by one guard, from the grant to the release or the loss. Label `name`:
/// that of its acquire, if it has one.
pub const HOLD_SECONDS: &str = "lock_hold_seconds";
/// Grants that came straight from another holder. Label `kind`: `local` from a guard of this
/// process without the store, `remote` from another claim by the store.
pub const HANDOFFS_TOTAL: &str = "lock_handoffs_total";
/// Acquires that were refused without using up their wait. Label `reason`: `line_full`,
/// or `over_budget` where the wait was estimated to be longer than its budget. Label `name`: that of
/// the acquire, if it has one.
pub const REFUSED_TOTAL: &str = "lock_refused_total";
/// Holds that were over before their release. Label `reason`: `expired`, `taken`, `hold_limit`,
/// `shutdown`; see [`LossReason`](crate::error::LossReason). Label `name`: that of the acquire, if it
/// has one.
pub const LOST_TOTAL: &str = "lock_lost_total";
/// Renewals. Label `outcome`: `held`, `lost`, or `fault` without an answer.
pub const RENEWALS_TOTAL: &str = "lock_renewals_total";
/// How long a request to the store took. Labels `verb` and `outcome`: `attempt` is `granted`
/// or `blocked`, `renew` is `held` or `lost`, `withdraw` is `released` or `not_held`, and each
/// is a `fault` without an answer.
pub const STORE_SECONDS: &str = "lock_store_seconds";
/// Acquires that stand in the line of this process now.
pub const WAITERS: &str = "lock_waiters";
/// Guards that are held in this process now. Readers and permits of one key count each.
pub const HELD: &str = "lock_held";
/// Whether a member of a managed quorum may be asked for locks: 1, or 0 if it is away or kept away.
/// Label `member`: its name in the URL (`host:port`).
pub const MEMBER_READY: &str = "lock_quorum_member_ready";
/// Members that were found without their data, by this client, and are kept away. Label `member`.
pub const MEMBER_QUARANTINES_TOTAL: &str = "lock_quorum_quarantines_total";
/// Members that this client has let grant again. Label `member`.
pub const MEMBER_REPAIRS_TOTAL: &str = "lock_quorum_repairs_total";
/// How long a request to a member took, of those that were answered. Label `member`.
pub const MEMBER_SECONDS: &str = "lock_quorum_member_seconds";
/// Requests under an idempotency key. Label `outcome`: `executed`, `replayed`, `in_flight`,
/// `mismatch`, `without_payload`, `unknown`, or `failed` without the lock or the records.
pub const IDEMPOTENCY_REQUESTS_TOTAL: &str = "idempotency_requests_total";
/// Executions that ended after another had taken over; what they brought was refused.
pub const IDEMPOTENCY_STALE_TOTAL: &str = "idempotency_stale_completions_total";

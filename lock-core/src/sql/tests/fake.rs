//! A database of one row, in memory: several stores may share it, as processes do.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::backend::{ClaimId, Fault, FaultKind};
use crate::ground::{clock, lock};
use crate::key::Key;
use crate::sql::changes::Hearing;
use crate::sql::dialect::{Ask, Dialect, Named, Polls, Seen, Taken, Within};
use crate::sql::row::{Entry, Row};
use crate::sql::schema::{Schema, TableName};

/// The time at the database, which stands still.
pub(super) const NOW: Duration = Duration::from_secs(1_000);

/// Its row, and what is to become of the statements that come next.
#[derive(Debug, Default)]
pub(super) struct Server {
    row: Mutex<Option<Row>>,
    reads: Mutex<Statements>,
    swaps: Mutex<Statements>,
    takes: AtomicUsize,
    told: AtomicUsize,
    /// The stretches of names that were swept, each of which is told of one row.
    swept: Mutex<Vec<(String, String)>>,
}

#[derive(Debug, Default)]
struct Statements {
    sent: usize,
    fates: VecDeque<Fate>,
}

/// What becomes of a statement, in place of an answer at once.
#[derive(Debug)]
pub(super) enum Fate {
    /// It takes effect, and its answer comes with this.
    Waits(oneshot::Receiver<()>),
    /// It takes no effect.
    Fails(Fault),
}

impl Fate {
    /// One that is answered when the test says so.
    pub(super) fn waits() -> (oneshot::Sender<()>, Self) {
        let (go, goes_on) = oneshot::channel();
        (go, Self::Waits(goes_on))
    }

    pub(super) fn fails() -> Self {
        Self::Fails(Fault::new(FaultKind::Transient, "as the test says"))
    }

    pub(super) fn fails_unsent() -> Self {
        Self::Fails(Fault::new(FaultKind::Transient, "as the test says").unsent())
    }
}

impl Statements {
    fn send(&mut self) -> Option<Fate> {
        self.sent += 1;
        self.fates.pop_front()
    }
}

impl Server {
    pub(super) fn of(entry: &Entry) -> Arc<Self> {
        let row = Row::of(entry, None, NOW);
        Arc::new(Self { row: Mutex::new(Some(row)), ..Self::default() })
    }

    pub(super) fn entry(&self) -> Entry {
        lock(&self.row).as_ref().expect("a row").entry().expect("a row of ours")
    }

    pub(super) fn row(&self) -> Row {
        lock(&self.row).clone().expect("a row")
    }

    pub(super) fn reads(&self) -> usize {
        lock(&self.reads).sent
    }

    pub(super) fn swaps(&self) -> usize {
        lock(&self.swaps).sent
    }

    pub(super) fn takes(&self) -> usize {
        self.takes.load(Ordering::Relaxed)
    }

    /// How often others were told.
    pub(super) fn told(&self) -> usize {
        self.told.load(Ordering::Relaxed)
    }

    pub(super) fn next_read(&self, fate: Fate) {
        lock(&self.reads).fates.push_back(fate);
    }

    pub(super) fn next_swap(&self, fate: Fate) {
        lock(&self.swaps).fates.push_back(fate);
    }

    pub(super) fn swept(&self) -> Vec<(String, String)> {
        lock(&self.swept).clone()
    }

    /// Another process writes the row, and changes nothing that it says.
    pub(super) fn touch(&self) {
        lock(&self.row).as_mut().expect("a row").version += 1;
    }
}

async fn suffer<T>(
    fate: Option<Fate>,
    by: Instant,
    answer: impl FnOnce() -> T,
) -> Result<T, Fault> {
    if by <= clock::now() {
        return Err(Fault::new(FaultKind::Transient, "too late").unsent());
    }
    match fate {
        Some(Fate::Fails(fault)) => Err(fault),
        Some(Fate::Waits(goes_on)) => {
            let answer = answer();
            goes_on.await.ok();
            Ok(answer)
        }
        None => {
            // As long as others need to send theirs.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            Ok(answer())
        }
    }
}

/// A connection to it.
#[derive(Debug)]
pub(super) struct Fake {
    server: Arc<Server>,
    schema: Schema,
    hearing: Hearing,
}

impl Fake {
    /// One that others tell what they write.
    pub(super) fn of(server: &Arc<Server>) -> Self {
        Self::hearing(server, Hearing::Told)
    }

    /// One that looks when the test says so.
    pub(super) fn looking(server: &Arc<Server>) -> Self {
        let never = Duration::from_secs(3_600);
        Self::hearing(server, Hearing::Looks { waiting: never, holding: never })
    }

    fn hearing(server: &Arc<Server>, hearing: Hearing) -> Self {
        let schema = Schema::new(TableName::default(), |_, _| Vec::new());
        Self { server: server.clone(), schema, hearing }
    }
}

impl Dialect for Fake {
    const POLLS: Polls = Polls::Anywhere;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn hearing(&self) -> Hearing {
        self.hearing
    }

    fn tells(&self) -> bool {
        true
    }

    async fn take(&self, _ask: &Ask, _by: Instant) -> Result<Option<Taken>, Fault> {
        self.server.takes.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        Ok(None)
    }

    async fn renew(&self, _ask: &Ask, _by: Instant) -> Result<Option<Taken>, Fault> {
        Ok(None)
    }

    async fn give_back(&self, _key: &Key, _claim: ClaimId, _by: Instant) -> Result<bool, Fault> {
        Ok(false)
    }

    async fn read(&self, _key: &Key, by: Instant) -> Result<Seen, Fault> {
        let fate = lock(&self.server.reads).send();
        suffer(fate, by, || Seen { row: lock(&self.server.row).clone(), now: NOW }).await
    }

    async fn swap(
        &self,
        _key: &Key,
        version: Option<i64>,
        row: &Row,
        tells: bool,
        by: Instant,
    ) -> Result<bool, Fault> {
        let fate = lock(&self.server.swaps).send();
        let swap = || {
            let mut there = lock(&self.server.row);
            let is_there = there.as_ref().map(|there| there.version) == version;
            if is_there {
                *there = Some(row.clone());
                self.server.told.fetch_add(usize::from(tells), Ordering::Relaxed);
            }
            is_there
        };
        suffer(fate, by, swap).await
    }

    /// Not counted: whoever listens is told by it.
    async fn read_all(&self, keys: &[Key], _by: Instant) -> Result<Vec<Named>, Fault> {
        Ok(keys.iter().map(|key| (key.to_string(), self.server.row(), NOW)).collect())
    }

    async fn busy(&self, _in: &Within, _most: usize, _by: Instant) -> Result<Vec<String>, Fault> {
        Ok(Vec::new())
    }

    async fn mark(&self, _by: Instant) -> Result<Option<i64>, Fault> {
        Ok(None)
    }

    async fn behind(&self, from: &str, _by: Instant) -> Result<Option<String>, Fault> {
        let ends = ["b", "c"];
        Ok(ends.into_iter().find(|end| *end > from).map(str::to_owned))
    }

    async fn sweep(&self, within: &Within, _idle: Duration, _by: Instant) -> Result<u64, Fault> {
        lock(&self.server.swept).push((within.from.clone(), within.before.clone()));
        Ok(1)
    }
}

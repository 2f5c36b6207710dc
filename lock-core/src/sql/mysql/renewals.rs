//! Many claims in two statements: one that renews, and one that reads what became of them, as an
//! update has no answer here but one number.
//!
//! That number is the time of the first. A row that it has renewed is known by it: its lease ends
//! so long after that time, and its version is no older. What changed in between is seen as it is
//! then, and one that has another holder by then is not among them.
//!
//! No row is waited for, so batches deadlock neither with each other nor with single verbs: the
//! rows are locked by a read that leaves out what somebody else keeps (`SKIP LOCKED`), and only
//! those are written.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures_util::future::join_all;

use super::link::Link;
use super::short::{TOKEN_END, power_of};
use super::statements::{Granted, NOW_US};
use super::text::{Arg, Text};
use crate::backend::Fault;
use crate::sql::dialect::Ask;
use crate::sql::fault::odd;
use crate::sql::read::Found;
use crate::sql::remote::{BATCH_MAX, Renewed, ServerClock, Together, Twice};
use crate::sql::row::ms;

/// The place of the claim, behind what a grant has.
const CLAIM: usize = 4;

/// The renewals of several claims, as MySQL and MariaDB do them.
#[derive(Debug)]
pub(super) struct Several {
    link: Arc<Link>,
    time: Arc<ServerClock>,
    requests: Arc<AtomicU64>,
    /// The statements for up to 2, 4, 8, … claims.
    texts: Vec<Texts>,
}

#[derive(Debug)]
struct Texts {
    /// Given the keys, the claims, what they say of themselves, the lease in ms, and the most
    /// tokens as a power of two and as a number; answers its time in microseconds, or 0 for none.
    renew: Text,
    /// Given the keys, the claims, the end of the lease and the least version.
    renewed: Text,
}

/// Claims that differ in nothing but their keys.
type Alike<'a> = Vec<&'a Ask>;

impl Several {
    /// It counts its `requests` with those of the store.
    pub(super) fn new(link: Arc<Link>, time: Arc<ServerClock>, requests: Arc<AtomicU64>) -> Self {
        let table = link.config().params.table.to_string();
        let sizes = 1..=BATCH_MAX.next_power_of_two().ilog2();
        let texts = sizes.map(|power| Texts::new(&table, 1 << power)).collect();
        Self { link, time, requests, texts }
    }

    async fn renew(&self, asks: Alike<'_>, by: Instant) -> Result<Renewed, Fault> {
        let [first, _, ..] = &asks[..] else {
            // Two statements are no less than the one that it sends by itself.
            return Ok(Renewed::new());
        };
        let size = asks.len().next_power_of_two();
        let place = usize::try_from(size.ilog2()).unwrap_or(1) - 1;
        let texts = &self.texts[place.min(self.texts.len() - 1)];
        let list = |of: fn(&Ask) -> Arg| {
            let mut list: Vec<_> = asks.iter().map(|ask| of(ask)).collect();
            // To name one of them again changes nothing.
            list.resize(size, list[0].clone());
            list
        };
        let mut named = list(|ask| Arg::Key(ask.key.clone()));
        named.extend(list(|ask| Arg::Claim(ask.claim)));
        let power = power_of(first.tokens_max);
        let mut args = named.clone();
        args.extend([
            Arg::Text(first.about.to_string()),
            Arg::Whole(ms(first.lease)),
            Arg::Whole(i64::from(power)),
            Arg::Whole(1 << power),
        ]);
        self.requests.fetch_add(1, Ordering::Relaxed);
        let done = self.link.write(by, &texts.renew, &args, Twice::Same).await?;
        let began_us = done.map_or(0, |done| done.last_insert_id());
        let Some(began_us) = i64::try_from(began_us).ok().filter(|us| *us > 0) else {
            return Ok(Renewed::new());
        };
        self.time.saw(began_us / 1_000);
        let mut args = named;
        args.extend([Arg::Whole(began_us / 1_000 + ms(first.lease)), Arg::Whole(began_us)]);
        self.requests.fetch_add(1, Ordering::Relaxed);
        let rows = self.link.rows(by, &texts.renewed, &args).await.map_err(Fault::in_doubt)?;
        rows.iter().map(|row| Found(row).renewed(CLAIM)).collect::<Result<_, _>>().map_err(odd)
    }
}

impl Together for Several {
    async fn renew_all(&self, asks: &[Ask], by: Instant) -> Result<Renewed, Fault> {
        let mut all = HashMap::<_, Alike<'_>>::new();
        for ask in asks {
            all.entry((ask.lease, ask.tokens_max, &ask.about)).or_default().push(ask);
        }
        // Beside each other, so that none waits for those with a longer lease.
        let all = join_all(all.into_values().map(|alike| self.renew(alike, by))).await;
        let (mut renewed, mut is_answered, mut fault) = (Renewed::new(), false, None);
        for some in all {
            match some {
                Ok(some) => {
                    is_answered = true;
                    renewed.extend(some);
                }
                Err(error) => fault = Some(error),
            }
        }
        // Where the server answered, those that were not renewed ask alone.
        match fault {
            Some(fault) if !is_answered => Err(fault),
            _ => Ok(renewed),
        }
    }

    fn place(&self) -> String {
        self.link.config().server()
    }
}

impl Texts {
    fn new(table: &str, size: usize) -> Self {
        let list = |from: usize| {
            let places: Vec<_> =
                (from + 1..=from + size).map(|place| format!("${place}")).collect();
            places.join(", ")
        };
        let (keys, claims) = (list(0), list(size));
        let [about, lease, power, most] = [1, 2, 3, 4].map(|n| format!("${}", 2 * size + n));
        let Granted { now, token, power, version, .. } = Granted::new(&power, &most);
        let named = format!("name IN ({keys}) AND holder IN ({claims}) AND holders = ''");
        // The order of the tables and the indexes are given, as a scan would wait for strangers'
        // rows.
        let renew = format!(
            "UPDATE (SELECT name AS taken, {token} AS new_fence, 1 << {power} AS new_fences, \
             {version} AS new_version, LAST_INSERT_ID({NOW_US}) AS began \
             FROM {table} FORCE INDEX (PRIMARY) \
             WHERE {named} AND until > {now} AND fence < {TOKEN_END} \
             ORDER BY name LIMIT {size} FOR UPDATE SKIP LOCKED) AS q \
             STRAIGHT_JOIN {table} AS l FORCE INDEX (PRIMARY) ON l.name = q.taken \
             SET l.version = q.new_version, l.fence = q.new_fence, l.fences = q.new_fences, \
             l.about = {about}, l.until = q.began DIV 1000 + {lease}"
        );
        let renewed = format!(
            "SELECT version, fence, fences, line <> '', holder FROM {table} \
             WHERE {named} AND until = {about} AND version >= {lease}"
        );
        Self { renew: Text::new(&renew), renewed: Text::new(&renewed) }
    }
}

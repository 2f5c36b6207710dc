//! The login that requests are sent with.
//!
//! A login costs a member a hash that is slow on purpose. So all who need one wait for the same.
//! The outcome is forgotten as soon as a member does not take it: a token that is too old, and also
//! that the cluster asks for none, which `auth enable` changes while clients run.

use std::fmt;
use std::future::Future;
use std::sync::Mutex;
use std::time::Instant;

use tonic::Status;
use tonic::metadata::{AsciiMetadataValue, MetadataMap};

use super::fault::Failure;
use super::rpc::Answer;
use super::wire::{AuthenticateRequest, AuthenticateResponse};
use crate::backend::url::Login;
use crate::ground::{clock, lock};

/// The login of one client.
pub(super) struct Logins {
    who: Option<Login>,
    known: Mutex<Known>,
    /// Held by who logs in; the last failure and its time.
    asking: tokio::sync::Mutex<Option<(Instant, Failure)>>,
}

#[derive(Debug)]
struct Known {
    /// The number of times that it was forgotten.
    number: u64,
    pass: Pass,
}

/// The pass that goes with a request.
#[derive(Debug, Clone)]
enum Pass {
    // ## Unknown => (Off | Token)
    Unknown,
    // ## Off => Unknown
    /// The cluster asks for none.
    Off,
    // ## Token => Unknown
    /// Shown by nobody's `Debug`.
    Token(AsciiMetadataValue),
}

impl fmt::Debug for Logins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logins").field("known", &self.known).finish_non_exhaustive()
    }
}

impl Logins {
    pub(super) fn new(who: Option<Login>) -> Self {
        let known = Mutex::new(Known { number: 0, pass: Pass::Unknown });
        Self { who, known, asking: tokio::sync::Mutex::new(None) }
    }

    /// Names what is known now, for [`forget`](Self::forget).
    pub(super) fn number(&self) -> u64 {
        lock(&self.known).number
    }

    /// A member did not take what was known under this number; `false` if there is no other login
    /// to be had.
    pub(super) fn forget(&self, number: u64) -> bool {
        let mut known = lock(&self.known);
        // Another may have found that, and a newer one is known.
        if known.number == number {
            *known = Known { number: number.wrapping_add(1), pass: Pass::Unknown };
        }
        self.who.is_some()
    }

    fn pass(&self) -> Pass {
        lock(&self.known).pass.clone()
    }

    /// Adds what a request needs, by `log_in` where nothing is known.
    pub(super) async fn sign<F>(
        &self,
        metadata: &mut MetadataMap,
        log_in: impl FnOnce(AuthenticateRequest) -> F,
    ) -> Answer<()>
    where
        F: Future<Output = Answer<AuthenticateResponse>>,
    {
        let Some(who) = &self.who else { return Ok(()) };
        let pass = match self.pass() {
            Pass::Unknown => self.learn(who, log_in).await?,
            known => known,
        };
        if let Pass::Token(token) = pass {
            metadata.insert("authorization", token);
        }
        Ok(())
    }

    /// Logs in, or waits for who does and has what came of it.
    async fn learn<F>(
        &self,
        who: &Login,
        log_in: impl FnOnce(AuthenticateRequest) -> F,
    ) -> Answer<Pass>
    where
        F: Future<Output = Answer<AuthenticateResponse>>,
    {
        let asked = clock::now();
        let mut failed = self.asking.lock().await;
        match self.pass() {
            Pass::Unknown => {}
            known => return Ok(known),
        }
        if let Some((at, failure)) = &*failed
            && asked < *at
        {
            return Err(failure.clone());
        }
        let number = self.number();
        let name = who.user().unwrap_or_default().to_owned();
        let request = AuthenticateRequest { name, password: who.password().to_owned() };
        let pass = match log_in(request).await {
            Ok(AuthenticateResponse { token }) => read(&token),
            Err(Failure::Answer(fault)) if fault.to_string().contains("not enabled") => {
                Ok(Pass::Off)
            }
            Err(failure) => Err(failure),
        };
        match &pass {
            Ok(pass) => *lock(&self.known) = Known { number, pass: pass.clone() },
            Err(failure) => *failed = Some((clock::now(), failure.clone())),
        }
        pass
    }
}

fn read(token: &str) -> Answer<Pass> {
    let odd = |_| Failure::of(Status::internal("a token that is no text"));
    let mut token: AsciiMetadataValue = token.parse().map_err(odd)?;
    token.set_sensitive(true);
    Ok(Pass::Token(token))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::task::JoinSet;

    use super::*;
    use crate::backend::{Fault, FaultKind};

    fn logins() -> Arc<Logins> {
        Arc::new(Logins::new(Some(Login::new(Some("u".into()), "p".into()))))
    }

    /// Has so many sign at one time; how many logins that took, and how many were signed.
    async fn sign_at_once(logins: &Arc<Logins>, answer: Answer<String>) -> (u32, usize) {
        let asked = Arc::new(AtomicU32::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..8 {
            let (logins, asked, answer) = (logins.clone(), asked.clone(), answer.clone());
            tasks.spawn(async move {
                let log_in = async |_| {
                    asked.fetch_add(1, Ordering::Relaxed);
                    // All others come meanwhile.
                    for _ in 0..99 {
                        tokio::task::yield_now().await;
                    }
                    answer.map(|token| AuthenticateResponse { token })
                };
                let mut metadata = MetadataMap::new();
                let signed = logins.sign(&mut metadata, log_in).await;
                signed.is_ok() && metadata.contains_key("authorization")
            });
        }
        let signed = tasks.join_all().await.into_iter().filter(|signed| *signed).count();
        (asked.load(Ordering::Relaxed), signed)
    }

    #[tokio::test]
    async fn all_who_need_a_login_wait_for_one() {
        let logins = logins();
        assert_eq!(sign_at_once(&logins, Ok("t".into())).await, (1, 8));
        assert_eq!(sign_at_once(&logins, Ok("t".into())).await, (0, 8));
        let number = logins.number();
        assert!(logins.forget(number));
        assert_eq!(sign_at_once(&logins, Ok("t".into())).await, (1, 8));
        // A request that went with the old one says so late.
        logins.forget(number);
        assert_eq!(sign_at_once(&logins, Ok("t".into())).await, (0, 8));
    }

    #[tokio::test]
    async fn all_who_waited_for_a_login_that_failed_have_its_failure() {
        let (logins, refused) = (logins(), Fault::new(FaultKind::Refused, "no"));
        let refused = || Err(Failure::Answer(refused.clone()));
        assert_eq!(sign_at_once(&logins, refused()).await, (1, 0));
        assert_eq!(sign_at_once(&logins, refused()).await, (1, 0));
    }

    #[tokio::test]
    async fn that_a_cluster_asks_for_none_is_forgotten_too() {
        let (logins, off) = (logins(), Fault::new(FaultKind::Refused, "auth is not enabled"));
        assert_eq!(sign_at_once(&logins, Err(Failure::Answer(off))).await, (1, 0));
        assert_eq!(sign_at_once(&logins, Ok("t".into())).await, (0, 0));
        logins.forget(logins.number());
        assert_eq!(sign_at_once(&logins, Ok("t".into())).await, (1, 8));
    }
}

//! The login that requests are sent with.
//!
//! A login costs a member a hash that is slow on purpose. So all who need one over the same link
//! wait for the same. It is a task of its own: it goes on when those who wait for it give up, and
//! the next who comes finds it, or what came of it. A link that was left may be one to a member that
//! is silent, so over the next link another is asked for; the first token that comes serves all.
//! The outcome is forgotten as soon as a member does not take it: a token that is too old, and also
//! that the cluster asks for none, which `auth enable` changes while clients run.

use std::fmt;
use std::future::Future;
use std::sync::Mutex;

use tokio::sync::watch;
use tonic::Status;
use tonic::metadata::{AsciiMetadataValue, MetadataMap};

use super::fault::Failure;
use super::rpc::Answer;
use super::wire::{AuthenticateRequest, AuthenticateResponse};
use crate::backend::url::Login;
use crate::ground::lock;

/// The login of one client.
pub(super) struct Logins {
    who: Option<Login>,
    known: watch::Sender<Known>,
    /// The login that was asked for last.
    asked: Mutex<Option<Asked>>,
}

/// A login that is under way, or has ended.
struct Asked {
    /// The number of the link over which it was asked for.
    over: u64,
    outcome: Outcome,
}

/// What came of a login: nothing before it has ended.
type Outcome = watch::Receiver<Option<Answer<Pass>>>;

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

impl Pass {
    fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown)
    }
}

impl fmt::Debug for Logins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logins").field("known", &*self.known.borrow()).finish_non_exhaustive()
    }
}

impl Logins {
    pub(super) fn new(who: Option<Login>) -> Self {
        let known = watch::Sender::new(Known { number: 0, pass: Pass::Unknown });
        Self { who, known, asked: Mutex::new(None) }
    }

    /// Names what is known now, for [`forget`](Self::forget).
    pub(super) fn number(&self) -> u64 {
        self.known.borrow().number
    }

    /// A member did not take what was known under this number; `false` if there is no other login
    /// to be had.
    pub(super) fn forget(&self, number: u64) -> bool {
        self.known.send_if_modified(|known| {
            // Another may have found that, and a newer one is known.
            let is_news = known.number == number;
            if is_news {
                *known = Known { number: number.wrapping_add(1), pass: Pass::Unknown };
            }
            is_news
        });
        self.who.is_some()
    }

    /// Adds what a request over this link needs, by `log_in` where nothing is known. To be called
    /// at home, where the login goes on whatever becomes of the caller.
    ///
    /// `log_in` has to end in time by itself.
    pub(super) async fn sign<F>(
        &self,
        metadata: &mut MetadataMap,
        over: u64,
        log_in: impl FnOnce(AuthenticateRequest) -> F,
    ) -> Answer<()>
    where
        F: Future<Output = Answer<AuthenticateResponse>> + Send + 'static,
    {
        let Some(who) = &self.who else { return Ok(()) };
        let pass = self.known.borrow().pass.clone();
        let pass = match pass {
            Pass::Unknown => self.learn(who, over, log_in).await?,
            known => known,
        };
        if let Pass::Token(token) = pass {
            metadata.insert("authorization", token);
        }
        Ok(())
    }

    /// Waits for the login over this link, and for any other that is sooner.
    async fn learn<F>(
        &self,
        who: &Login,
        over: u64,
        log_in: impl FnOnce(AuthenticateRequest) -> F,
    ) -> Answer<Pass>
    where
        F: Future<Output = Answer<AuthenticateResponse>> + Send + 'static,
    {
        let mut known = self.known.subscribe();
        let mut outcome = self.login(who, over, log_in);
        let known = async {
            match known.wait_for(|known| known.pass.is_known()).await {
                Ok(known) => known.pass.clone(),
                // The sender is here.
                Err(_) => Pass::Unknown,
            }
        };
        let outcome = async { outcome.wait_for(Option::is_some).await.ok()?.clone() };
        tokio::select! {
            biased;
            pass = known => Ok(pass),
            // One that was dropped with its runtime has no outcome.
            outcome = outcome => outcome.unwrap_or_else(|| Err(Failure::of(no_login()))),
        }
    }

    /// The login over this link that is under way, or a new one.
    fn login<F>(
        &self,
        who: &Login,
        over: u64,
        log_in: impl FnOnce(AuthenticateRequest) -> F,
    ) -> Outcome
    where
        F: Future<Output = Answer<AuthenticateResponse>> + Send + 'static,
    {
        let mut asked = lock(&self.asked);
        if let Some(Asked { outcome, .. }) = asked.as_ref().filter(|asked| asked.over == over)
            && outcome.has_changed().is_ok()
        {
            return outcome.clone();
        }
        let name = who.user().unwrap_or_default().to_owned();
        let request = AuthenticateRequest { name, password: who.password().to_owned() };
        let (asking, known) = (log_in(request), self.known.clone());
        let (tell, outcome) = watch::channel(None);
        *asked = Some(Asked { over, outcome: outcome.clone() });
        drop(asked);
        tokio::spawn(async move {
            let pass = match asking.await {
                Ok(AuthenticateResponse { token }) => read(&token),
                Err(Failure::Answer(fault)) if fault.to_string().contains("not enabled") => {
                    Ok(Pass::Off)
                }
                Err(failure) => Err(failure),
            };
            if let Ok(pass) = &pass {
                known.send_if_modified(|known| {
                    // One that was asked for later may have come before it.
                    let is_news = !known.pass.is_known();
                    if is_news {
                        known.pass = pass.clone();
                    }
                    is_news
                });
            }
            // Its drop says that another may be asked for.
            tell.send_replace(Some(pass));
        });
        outcome
    }
}

fn no_login() -> Status {
    Status::unavailable("a login was cut")
}

fn read(token: &str) -> Answer<Pass> {
    let odd = |_| Failure::of(Status::internal("a token that is no text"));
    let mut token: AsciiMetadataValue = token.parse().map_err(odd)?;
    token.set_sensitive(true);
    Ok(Pass::Token(token))
}

#[cfg(test)]
mod tests {
    use std::future::Ready;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::{FutureExt as _, poll};
    use tokio::sync::oneshot;
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
                let log_in = |_| {
                    asked.fetch_add(1, Ordering::Relaxed);
                    async {
                        // All others come meanwhile.
                        for _ in 0..99 {
                            tokio::task::yield_now().await;
                        }
                        answer.map(|token| AuthenticateResponse { token })
                    }
                };
                let mut metadata = MetadataMap::new();
                let signed = logins.sign(&mut metadata, 1, log_in).await;
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

    /// Begins to sign over this link, and gives up; the login then waits for its token.
    fn give_up(logins: &Logins, over: u64) -> oneshot::Sender<&'static str> {
        let (token, answered) = oneshot::channel();
        let log_in = |_| async {
            let token = String::from(answered.await.expect("it is sent"));
            Ok(AuthenticateResponse { token })
        };
        let mut metadata = MetadataMap::new();
        let signing = logins.sign(&mut metadata, over, log_in).now_or_never();
        assert!(signing.is_none(), "it waits");
        token
    }

    /// The token of a request over this link, which asks for no login of its own.
    async fn token_over(logins: &Logins, over: u64) -> AsciiMetadataValue {
        let mut metadata = MetadataMap::new();
        let log_in = |_| -> Ready<_> { panic!("another login was asked for") };
        logins.sign(&mut metadata, over, log_in).await.expect("it is signed");
        metadata.get("authorization").expect("a token").clone()
    }

    #[tokio::test]
    async fn a_login_goes_on_when_nobody_waits_for_it() {
        let logins = logins();
        let token = give_up(&logins, 1);
        // The next try comes before the answer, and finds the same.
        let mut next = pin!(token_over(&logins, 1));
        assert!(poll!(&mut next).is_pending());
        token.send("t").unwrap();
        assert_eq!(next.await, "t");
        assert_eq!(token_over(&logins, 2).await, "t");
    }

    #[tokio::test]
    async fn over_another_link_another_login_is_asked_for_and_the_first_token_serves() {
        for first_comes in [true, false] {
            let logins = logins();
            let (one, two) = (give_up(&logins, 1), give_up(&logins, 2));
            let mut next = pin!(token_over(&logins, 2));
            assert!(poll!(&mut next).is_pending());
            let (soon, late) = if first_comes { (one, two) } else { (two, one) };
            soon.send("soon").unwrap();
            assert_eq!(next.await, "soon");
            late.send("late").unwrap();
            tokio::task::yield_now().await;
            assert_eq!(token_over(&logins, 3).await, "soon");
        }
    }
}

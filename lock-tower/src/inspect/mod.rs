//! The locks of a running service, for people who watch it: who holds them, who waits, and for how
//! long.
//!
//! When an endpoint stands still, the first question is who has the lock. The inspector answers it
//! from inside the service, on routes that an application merges into its own:
//!
//! | route | answers |
//! |---|---|
//! | `GET /locks` | the busy keys of this process, as JSON; as a page where `Accept` prefers `text/html` |
//! | `GET /locks?of=all` | the busy keys of all processes, as the store says, as JSON |
//! | `GET /locks/events` | the same as server-sent events, where `Accept` is `text/event-stream` |
//! | `GET /locks/{key}` | who holds a key and who waits for it in all processes, as the store says |
//! | `DELETE /locks/{key}` | takes the key away from its holder, where that is [allowed](Inspector::allow_force_release) |
//!
//! ```
//! use axum::Router;
//! use http::StatusCode;
//! use http::header::AUTHORIZATION;
//! use http::request::Parts;
//! use lock_tower::inspect;
//!
//! // Whatever the service knows its operators by. A browser sends Basic credentials and cookies
//! // with every request; it sends no bearer token when it opens a page.
//! fn operator(request: &Parts) -> Result<(), StatusCode> {
//!     match request.headers.get(AUTHORIZATION) {
//!         Some(sent) if sent == "Bearer 7bd4…" => Ok(()),
//!         _ => Err(StatusCode::UNAUTHORIZED),
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = lock_core::LockClient::connect("memory:").await?;
//! let app: Router = Router::new().merge(inspect::router(locks, operator).into_router());
//! # use tower::ServiceExt;
//! # let request = http::Request::get("/locks").body(axum::body::Body::empty())?;
//! # assert_eq!(app.oneshot(request).await?.status(), 401);
//! # Ok(()) }
//! ```
//!
//! # Who may see it
//!
//! Keys name customers and orders, so there is no inspector without a function that says who may
//! look. It is asked for every request, the page's own script included. It cannot wait: what must
//! be awaited to know a user belongs into a middleware before it, which leaves the user in the
//! request's extensions. A stream of events ends after 5 minutes, and the browser that opens it
//! again is asked again.
//!
//! # What it costs
//!
//! Nothing while nobody looks. While somebody has the page open, the busy keys of this process are
//! written out once per [refresh](Inspector::refresh). Those who look at the same time share what
//! was written. The store is asked for a key that somebody has opened, and for those of all processes
//! while somebody looks at them: once every 2 s at most, see
//! [`inspect_all`](lock_core::LockClient::inspect_all). At most 32 streams are open at a time. They end as soon as the lock client is shut down, or [when told
//! to](Inspector::until): a graceful shutdown of the server does not wait for them, and
//! [`LockClient::shutdown`](lock_core::LockClient::shutdown) has the recipe.
//!
//! # Answers
//!
//! In the JSON times are milliseconds, and tokens are text, as a `u64` is more than a number holds
//! there. A key stands in the path in its encoded form ([`Key::as_str`](lock_core::Key::as_str),
//! which is how `GET /locks` writes it), with the percent signs of that form encoded once more.
//! Problem documents are as in [`answer`](crate::answer):
//!
//! | cause | status | `code` |
//! |---|---|---|
//! | the key is empty, too long or not encoded | 400 | `inspect_key` |
//! | forced release is not allowed here, or not to this viewer | 403 | `inspect_read_only`, `inspect_forbidden` |
//! | the request to `DELETE` is not known to come from this page | 403 | `inspect_cross_site` |
//! | the store cannot take a key away, or list its keys | 501 | `inspect_unsupported` |
//! | the store did not answer | 503 | `inspect_unavailable` |
//! | too many streams of events | 429 | `inspect_viewers` |

// Files:
//
// - `inspector`: the options. `routes`: the routes. `desk`: the state that all requests share.
// - `access`: who may look, and who may act. `accept`: the kind of answer a client prefers.
// - `answers`, `view`: the answers, and their JSON. `events`: snapshots as server-sent events.
// - `fleet`: the busy keys of all processes.
// - `page`: the three files of the page.

mod accept;
mod access;
mod answers;
mod desk;
mod events;
mod fleet;
mod inspector;
mod page;
mod routes;
mod view;

pub use access::FORCE_RELEASE_HEADER;
pub use inspector::{Inspector, router};

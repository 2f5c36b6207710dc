//! What the claims of a call are called at the store.

use lock_core::memory::Memory;
use lock_core::test_util::{Script, Scripted};
use lock_core::{AcquireError, LockClient, distributed_lock};

type Outcome<T = ()> = Result<T, AcquireError>;

fn recorded() -> (LockClient, Script) {
    let (backend, script) = Scripted::new(Memory::new());
    (LockClient::with_backend(backend), script)
}

fn names(script: &Script) -> Vec<Option<&'static str>> {
    script.claims().into_iter().map(|(_, terms)| terms.name).collect()
}

#[distributed_lock(key = "plain", client = locks)]
async fn plain(locks: &LockClient) -> Outcome {
    Ok(())
}

#[distributed_lock(key = "named", client = locks, name = "nightly report")]
async fn named(locks: &LockClient) -> Outcome {
    Ok(())
}

#[distributed_lock(keys = ["a", "b"], client = locks)]
async fn several(locks: &LockClient) -> Outcome {
    Ok(())
}

struct Shop {
    locks: LockClient,
}

impl Shop {
    #[distributed_lock(key = "shop", client = self.locks)]
    async fn open(&self) -> Outcome {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_called_by_the_path_of_the_function_unless_it_is_named() {
    let (locks, script) = recorded();
    plain(&locks).await.unwrap();
    named(&locks).await.unwrap();
    several(&locks).await.unwrap();
    Shop { locks }.open().await.unwrap();
    let path = |function| concat!(module_path!(), "::").to_owned() + function;
    let expected = [
        path("plain"),
        "nightly report".to_owned(),
        path("several"),
        path("several"),
        path("open"),
    ];
    assert_eq!(names(&script), expected.each_ref().map(|name| Some(name.as_str())));
}

mod a_module_whose_name_is_about_half_as_long_as_a_name_may_be_at_most {
    pub(super) mod and_another_one_in_it_that_makes_the_path_too_long_for_a_name {
        use super::super::*;

        #[distributed_lock(key = "k", client = locks)]
        pub(in super::super) async fn deep(locks: &LockClient) -> Outcome {
            Ok(())
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_function_deep_in_modules_is_called_by_the_end_of_its_path() {
    use a_module_whose_name_is_about_half_as_long_as_a_name_may_be_at_most as outer;
    let (locks, script) = recorded();
    outer::and_another_one_in_it_that_makes_the_path_too_long_for_a_name::deep(&locks)
        .await
        .unwrap();
    let name = names(&script)[0].unwrap();
    assert!(
        name.len() == lock_core::limits::NAME_BYTES_MAX && name.ends_with("_name::deep"),
        "{name}"
    );
}

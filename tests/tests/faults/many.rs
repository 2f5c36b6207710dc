//! Keys that are many.

use tests::checker::Checker;
use tests::redis::RedisServer;
use tests::wait::eventually;

use crate::support::*;

/// F35 (V6): keys that are used once each leave nothing in the client, and nothing at the server but
/// its clock. 100,000 in this process's store, 5,000 at a server.
#[tokio::test]
async fn many_keys_used_once_each_leave_nothing_in_the_client() {
    let memory = lock_core::LockClient::memory();
    for n in 0..100_000 {
        memory.lock(format!("k:{n}")).await.unwrap().release().await.unwrap();
    }
    eventually("no key is busy", || memory.stats().keys == 0).await;
    assert_eq!(memory.stats().acquired, 100_000);

    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(10_000)).await;
    let tasks: Vec<_> = (0..50)
        .map(|task| {
            let locks = locks.clone();
            tokio::spawn(async move {
                for n in 0..100 {
                    let guard = locks.lock(format!("k:{task}:{n}")).await.unwrap();
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(locks.stats().acquired, 5_000);
    nothing_left(&server, [locks]).await;
}

/// How much of a process is in memory, in kB.
fn resident_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// F35 (V6): the memory of a process stays flat over keys that it uses once each. A hundred bytes
/// kept per key would be 1 MB here.
#[tokio::test]
async fn the_memory_of_a_process_stays_flat_over_keys_used_once_each() {
    let (server, history) = (RedisServer::start(), History::new());
    let mut worker = history.worker("worker", &server.url(), &server, 10_000);
    let mut used = 0;
    let mut resident = Vec::new();
    for _ in 0..3 {
        for _ in 0..50 {
            // In blocks, as one answer at a time would measure the pipe.
            for n in 0..100 {
                worker.send(&format!("contend k:{}:{n} 1 1 0 5000", used));
            }
            for _ in 0..100 {
                assert!(worker.reply().await.ok);
            }
            used += 1;
        }
        resident.push(resident_kb(worker.pid()));
    }
    let stats = worker.ask("stats").await.value.unwrap();
    assert_eq!((&stats["keys"], &stats["acquired"]), (&0.into(), &15_000.into()));
    assert!(resident[2] <= resident[0] + 700, "kB after each 5,000 keys: {resident:?}");
    worker.send("exit");
    worker.ended().await;
    history.check(Checker::new().exclusive());
    nothing_left(&server, []).await;
}

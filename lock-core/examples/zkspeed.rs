//! x
use lock_core::LockClient;
use std::time::{Duration, Instant};
#[tokio::main(worker_threads = 2)]
async fn main() {
    let url = std::env::args().nth(1).unwrap_or("zookeeper://127.0.0.1:21810/speed".into());
    let locks = LockClient::connect(&url).await.unwrap();
    for _ in 0..3 {
        let t = Instant::now();
        let mut n = 0;
        let mut acq = Duration::ZERO;
        let r0 = locks.stats().store_requests;
        while t.elapsed() < Duration::from_secs(3) {
            let a = Instant::now();
            let g = locks.lock("single").await.unwrap();
            acq += a.elapsed();
            g.release().await.unwrap();
            n += 1;
        }
        println!(
            "single {:.0}/s  acquire mean {:?} total mean {:?} requests/acq {:.2}",
            n as f64 / t.elapsed().as_secs_f64(),
            acq / n,
            t.elapsed() / n,
            (locks.stats().store_requests - r0) as f64 / n as f64
        );
    }
    let t = Instant::now();
    let end = t + Duration::from_secs(4);
    let mut js = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let l = locks.clone();
        js.spawn(async move {
            let mut n = 0u64;
            while Instant::now() < end {
                let g = l.lock("hot").await.unwrap();
                n += 1;
                drop(g);
            }
            n
        });
    }
    let mut total = 0;
    while let Some(n) = js.join_next().await {
        total += n.unwrap();
    }
    println!("hot64 {:.0}/s", total as f64 / t.elapsed().as_secs_f64());
}

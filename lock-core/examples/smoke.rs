#![allow(missing_docs, clippy::disallowed_methods)]
use lock_core::*;
use std::time::{Duration, Instant};
#[tokio::main]
async fn main() {
    let url = std::env::args().nth(1).unwrap();
    let strict = std::env::args().nth(2).is_some();
    let a = LockClient::connect(&url).await.unwrap();
    let b = LockClient::connect(&url).await.unwrap();
    let t = Instant::now();
    for _ in 0..2000 {
        a.lock("k").await.unwrap().release().await.unwrap();
    }
    println!("uncontended {:?} each, requests {}", t.elapsed() / 2000, a.stats().store_requests);
    let g = a.lock("k").await.unwrap();
    println!("{:?}", a.inspect("k").await.unwrap());
    assert!(b.lock("k").try_acquire().await.unwrap().is_none());
    let w = tokio::spawn(b.lock("k").acquire());
    tokio::time::sleep(Duration::from_millis(50)).await;
    println!("{:?}", a.inspect("k").await.unwrap());
    let t = Instant::now();
    g.release().await.unwrap();
    let g2 = w.await.unwrap().unwrap();
    println!("handed in {:?} {:?} {:?}", t.elapsed(), g2.token(), b.stats());
    drop(g2);
    // hot key
    for clients in [vec![a.clone()], vec![a.clone(), b.clone()]] {
        let before: u64 = clients.iter().map(|c| c.stats().store_requests).sum();
        let end = Instant::now() + Duration::from_secs(2);
        let mut tasks = vec![];
        for i in 0..64 {
            let c = clients[i % clients.len()].clone();
            tasks.push(tokio::spawn(async move {
                let mut n = 0u64;
                let mut last = None;
                while Instant::now() < end {
                    let mut l = c.lock("hot");
                    if strict {
                        l = l.fairness(Fairness::Strict);
                    }
                    let g = l.await.unwrap();
                    assert!(last.is_none_or(|l| l < g.token()));
                    last = Some(g.token());
                    n += 1;
                    drop(g);
                }
                n
            }));
        }
        let mut counts = vec![];
        for t in tasks {
            counts.push(t.await.unwrap());
        }
        let sum: u64 = counts.iter().sum();
        let after: u64 = clients.iter().map(|c| c.stats().store_requests).sum();
        println!(
            "hot {} clients: {}/s min {:?} max {:?} commands per acq {:.4}",
            clients.len(),
            sum / 2,
            counts.iter().min(),
            counts.iter().max(),
            (after - before) as f64 / sum as f64
        );
    }
    while a.stats().keys + b.stats().keys > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    println!("{:?}\n{:?}", a.stats(), b.stats());
}

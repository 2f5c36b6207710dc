#![allow(missing_docs, clippy::disallowed_methods)]
use lock_core::LockClient;
use std::time::{Duration, Instant};
async fn run(url: String) {
    let a = LockClient::connect(&url).await.unwrap();
    let c = redis::Client::open(url.as_str()).unwrap();
    let mut con = c.get_multiplexed_async_connection().await.unwrap();
    let s = redis::Script::new(
        "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 10000) then return 1 end return redis.call('DEL', KEYS[1])",
    );
    let triv = redis::Script::new("return 1");
    let only = std::env::args().nth(2);
    let med = |mut v: Vec<Duration>| {
        v.sort();
        v[v.len() / 2]
    };
    for _ in 0..5 {
        let (mut x, mut y, mut z) = (vec![], vec![], vec![]);
        for _ in 0..3000 {
            let t = Instant::now();
            if only.is_none() {
                for _ in 0..2 {
                    let _: i64 = s.key("bare").arg("x").invoke_async(&mut con).await.unwrap();
                }
            }
            x.push(t.elapsed());
            let t = Instant::now();
            a.lock("k").await.unwrap().release().await.unwrap();
            y.push(t.elapsed());
            let t = Instant::now();
            if only.is_none() {
                for _ in 0..2 {
                    let _: i64 = triv.invoke_async(&mut con).await.unwrap();
                }
            }
            z.push(t.elapsed());
        }
        let (x, y, z) = (med(x), med(y), med(z));
        println!(
            "bare {x:?} trivial {z:?} ours {y:?} ratio {:.3} / {:.3}",
            y.as_secs_f64() / x.as_secs_f64(),
            y.as_secs_f64() / z.as_secs_f64()
        );
    }
}
#[tokio::main]
async fn main() {
    let url = std::env::args().nth(1).unwrap();
    println!("in block_on");
    run(url.clone()).await;
    println!("spawned");
    tokio::spawn(run(url)).await.unwrap();
}

//! Every form of a key.
#![deny(warnings)]

use lock_core::error::KeyError;
use lock_core::{AcquireError, Key, distributed_lock};

type Outcome = Result<(), AcquireError>;

struct Request {
    line: (Line, u8),
    r#type: String,
}

struct Line {
    sku: String,
}

const REGION: &str = "eu";

#[distributed_lock(key = "plain")]
async fn constant(_x: u8) -> Outcome {
    Ok(())
}

#[distributed_lock(key = "{id}")]
async fn bare(id: u64) -> Outcome {
    let _ = id;
    Ok(())
}

#[distributed_lock(key = "{{x}}/%é \n:pre-{req.line.0.sku}-post:{req.line.1}:{req.r#type}:{r#fn}")]
async fn fields(req: Request, r#fn: u8) -> Outcome {
    let _ = (req, r#fn);
    Ok(())
}

#[distributed_lock(key = ("{region}:{}:{}:{}", REGION, req.line.0.sku.len() + 1, *number))]
async fn tuple(region: &str, req: &Request, number: &u8) -> Outcome {
    let _ = (region, req, number);
    Ok(())
}

#[distributed_lock(key = ("b:{1}:{0}", a, format_args!("{b:05}")))]
async fn indexed(a: u8, b: u8) -> Outcome {
    let _ = (a, b);
    Ok(())
}

#[distributed_lock(key = format!("e:{id}"))]
async fn expression(id: u64) -> Outcome {
    let _ = id;
    Ok(())
}

#[distributed_lock(key = &text)]
async fn borrowed(text: String) -> Outcome {
    drop(text);
    Ok(())
}

#[distributed_lock(key = key)]
async fn outcome(key: Result<Key, KeyError>, id: u64) -> Outcome {
    let _ = id;
    Ok(())
}

#[distributed_lock(key = make(id)?)]
async fn fallible(id: u64) -> Outcome {
    let _ = id;
    Ok(())
}

fn make(id: u64) -> Result<Key, KeyError> {
    Key::from_segments(["id", &id.to_string()])
}

#[distributed_lock]
async fn by_name() -> Outcome {
    Ok(())
}

#[distributed_lock()]
async fn by_name_too() -> Outcome {
    Ok(())
}

macro_rules! locked {
    ($name:ident, $key:literal, $other:expr) => {
        #[distributed_lock(keys = [$key, $other])]
        async fn $name(id: u64) -> Outcome {
            let _ = id;
            Ok(())
        }
    };
}

locked!(in_macro, "macro", ("macro:{}", 1));

pub(crate) fn main() {
    let _ = (constant, bare, fields, tuple, indexed, expression, borrowed, outcome, fallible);
    let _ = (by_name, by_name_too, in_macro);
}

//! A policy as a command of WASI: `policy.wasm validate`, the request on stdin, the answer on stdout.
use std::io::{Read, Write};

pub fn run() {
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input).expect("the host gives UTF-8");
    let answer = match std::env::args().nth(1).as_deref() {
        Some("validate") => crate::validate(&input),
        Some("validate-settings") => crate::check_settings(&input),
        _ => {
            eprintln!("usage: policy.wasm validate|validate-settings");
            std::process::exit(2);
        }
    };
    std::io::stdout().write_all(answer.as_bytes()).expect("the host takes the answer");
}

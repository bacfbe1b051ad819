//! No port is given out twice, in this process or in another.

#![cfg(test)]

use std::collections::HashSet;
use std::net::TcpListener;
use std::process::Command;

use portcullis_harness::ports;

#[test]
fn ports_are_distinct_and_free_across_threads() {
    let threads: Vec<_> =
        (0..4).map(|_| std::thread::spawn(|| (0..20).map(|_| ports::free().unwrap()).collect::<Vec<_>>())).collect();
    let given: Vec<u16> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    assert_eq!(given.iter().collect::<HashSet<_>>().len(), given.len());
    for port in given {
        TcpListener::bind(("127.0.0.1", port)).unwrap();
    }
}

#[test]
fn port_held_here_is_not_given_to_another_process() {
    let held: HashSet<u16> = (0..200).map(|_| ports::free().unwrap()).collect();
    let output = Command::new(env!("CARGO_BIN_EXE_harness-print-ports")).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let theirs: HashSet<u16> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(theirs.len(), 200);
    assert!(held.is_disjoint(&theirs));
}

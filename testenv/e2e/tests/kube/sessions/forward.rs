use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use portcullis_harness::client::plain;
use portcullis_harness::process::Process;
use portcullis_harness::wait;

use super::place::{SOON, Way};

const CONNECTIONS: usize = 4;

pub(super) fn connections_side_by_side(way: &Way<'_>) {
    let forward = way.kubectl(["port-forward", &way.pod, ":7", ":8080"]).spawn().unwrap();
    let (echo, web) = (local_port(way, &forward, 7), local_port(way, &forward, 8080));
    std::thread::scope(|scope| {
        for number in 0..CONNECTIONS {
            scope.spawn(move || echoes(way, echo, number));
        }
        scope.spawn(move || {
            let answer = plain::get(web, "/over?the=port").unwrap();
            assert!(answer.text().starts_with("GET /over?the=port\n"), "{way}: {}", answer.text());
        });
    });
    assert!(forward.is_running(), "{way}: {}", forward.log());
    assert!(!forward.log().contains("error"), "{way}: {}", forward.log());
}

/// The port that the kernel gave to kubectl.
fn local_port(way: &Way<'_>, forward: &Process, port: u16) -> SocketAddr {
    let found = || {
        let told = forward.stdout();
        let line = told.lines().find(|line| line.contains("127.0.0.1:") && line.ends_with(&format!("-> {port}")));
        let line = line.ok_or_else(|| format!("{told}{}", forward.log()))?;
        line.split(' ').find_map(|word| word.parse().ok()).ok_or_else(|| line.to_owned())
    };
    wait::until_ok(&format!("{way}: port {port} is forwarded"), SOON, found).unwrap()
}

fn echoes(way: &Way<'_>, address: SocketAddr, number: usize) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let said: String = (0..10_000).map(|line| format!("{number} says {line}\n")).collect();
    let mut writing = stream.try_clone().unwrap();
    let heard = std::thread::scope(|scope| {
        scope.spawn(|| {
            writing.write_all(said.as_bytes()).unwrap();
            writing.shutdown(Shutdown::Write).unwrap();
        });
        let mut heard = String::new();
        stream.read_to_string(&mut heard).unwrap();
        heard
    });
    assert!(heard == said, "{way}: connection {number} got {} of {} bytes", heard.len(), said.len());
}

//! Connections without a message: clients with a certificate are served all the same.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use portcullis_xds::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::site::{SOON, Site, dial, snapshot};

/// A flood that never ends by itself: who is served is served beside it.
fn patient() -> Limits {
    Limits { handshake_time: Duration::from_secs(3600), ..Limits::default() }
}

/// Opens so many connections, and has each say `words`.
async fn flood(site: &Site, count: u32, from: impl Fn(u32) -> IpAddr, words: &[u8]) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for number in 0..count {
        let mut stream = dial(from(number), site.address).await.unwrap();
        // It may have been closed already.
        let _ = stream.write_all(words).await;
        open.push(stream);
    }
    open
}

/// The number of resources in the first responses to a client with a certificate.
async fn hears(site: &Site, name: &str) -> usize {
    let caller = site.caller(&site.identity(name));
    let heard = async { caller.delta().await.unwrap().introduce(name).await.unwrap() };
    tokio::time::timeout(SOON, heard).await.expect("it is served").resources.len()
}

fn many(number: u32) -> IpAddr {
    Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + 1 + number % 250).into()
}

fn one(_: u32) -> IpAddr {
    Ipv4Addr::LOCALHOST.into()
}

/// The first bytes of a TLS record that announces more than ever comes.
const HALF: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];

#[tokio::test(flavor = "multi_thread")]
async fn thousand_silent_connections_keep_nobody_out() {
    for (name, from, words) in [
        ("one-silent", one as fn(u32) -> IpAddr, &b""[..]),
        ("many-silent", many, b""),
        ("one-half", one, HALF),
        ("many-half", many, HALF),
    ] {
        let site = Site::start(&format!("flood-{name}"), patient(), snapshot(10, 100)).await;
        let kept = flood(&site, 1_000, from, words).await;
        assert_eq!(hears(&site, "envoy-0").await, 10, "{name}");
        assert!(site.rejected("handshakes") > 0, "{name}");
        drop(kept);
    }
}

/// The flood goes on while clients come: a client of another address has a place of its own.
#[tokio::test(flavor = "multi_thread")]
async fn flood_that_goes_on_keeps_nobody_out() {
    let site = Site::start("flood-endless", patient(), snapshot(10, 100)).await;
    let address = site.address;
    let attack = tokio::spawn(async move {
        let mut kept = std::collections::VecDeque::new();
        loop {
            if let Ok(stream) = dial(Ipv4Addr::new(127, 0, 0, 2).into(), address).await {
                kept.push_back(stream);
            }
            if kept.len() > 1_000 {
                kept.pop_front();
            }
        }
    });
    site.until("the flood is on", |site| site.rejected("handshakes") > 500).await;
    for number in 0..10 {
        let name = format!("envoy-{number}");
        assert_eq!(hears(&site, &name).await, 10);
    }
    attack.abort();
}

/// Their own time limit ends them, and no sooner than that: nothing crowds them out.
#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_end_with_their_time() {
    for (name, words) in [("time-silent", &b""[..]), ("time-half", HALF)] {
        let limits = Limits { handshake_time: Duration::from_secs(1), ..Limits::default() };
        let site = Site::start(name, limits, snapshot(1, 1)).await;
        let since = Instant::now();
        for mut stream in flood(&site, 3, one, words).await {
            let mut rest = Vec::new();
            let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut rest)).await.expect("it is closed");
        }
        assert!(since.elapsed() >= Duration::from_secs(1), "{name}: {:?}", since.elapsed());
        site.until("all are counted", |site| site.rejected("handshake_time") == 3).await;
        assert_eq!(site.rejected("handshakes"), 0, "{name}");
    }
}

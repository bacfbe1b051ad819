//! Connections on which nobody says anything: whoever has a certificate is served all the same.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use portcullis_xds::Limits;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::site::{Site, dial, snapshot};

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

fn many(number: u32) -> IpAddr {
    Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + 1 + number % 250).into()
}

fn one(_: u32) -> IpAddr {
    Ipv4Addr::LOCALHOST.into()
}

/// The first bytes of a TLS record that announces more than ever comes.
const HALF: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_silent_connections_keep_nobody_out() {
    for (name, from, words) in [
        ("one-silent", one as fn(u32) -> IpAddr, &b""[..]),
        ("many-silent", many, b""),
        ("one-half", one, HALF),
        ("many-half", many, HALF),
    ] {
        let site = Site::start(&format!("flood-{name}"), patient(), snapshot(10, 100)).await;
        let kept = flood(&site, 1_000, from, words).await;
        let heard = site.caller(&site.identity("envoy-0")).delta().await.unwrap().introduce("envoy-0").await.unwrap();
        assert_eq!(heard.resources.len(), 10);
        assert!(site.turned_away("handshakes") > 0, "{name}");
        drop(kept);
    }
}

/// The flood goes on while clients come: a client of another address has a place of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_that_goes_on_keeps_nobody_out() {
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
    site.until("the flood is on", |site| site.turned_away("handshakes") > 500).await;
    for number in 0..10 {
        let name = format!("envoy-{number}");
        let heard = site.caller(&site.identity(&name)).delta().await.unwrap().introduce(&name).await.unwrap();
        assert_eq!(heard.resources.len(), 10);
    }
    attack.abort();
}

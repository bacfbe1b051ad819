//! Clients of the ports that a kubelet probes cannot have the programs restarted.

use std::io::Read;
use std::net::TcpStream;

use portcullis_harness::client::plain;

use super::fixture::{AgentFixture, SOON};

/// More than either program has at a time.
const FLOOD: usize = 300;

#[test]
fn silent_connections_keep_nobody_out_and_do_not_stay() {
    let fixture = AgentFixture::new("agent-strangers");
    let site = fixture.site("envoy-0").start().unwrap();
    for address in [site.agent.http_address(), site.plane().http_address()] {
        let mut flood: Vec<_> = (0..FLOOD).map(|_| TcpStream::connect(address).unwrap()).collect();
        assert_eq!(plain::get(address, "/healthz").unwrap().status, 200);
        for silent in &mut flood {
            silent.set_read_timeout(Some(SOON)).unwrap();
            // An end or a reset, but no timeout.
            let end = silent.read(&mut [0]);
            assert!(
                end.as_ref()
                    .map_or_else(|error| error.kind() == std::io::ErrorKind::ConnectionReset, |read| *read == 0),
                "{end:?}"
            );
        }
    }
}

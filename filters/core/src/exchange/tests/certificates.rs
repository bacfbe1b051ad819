//! Certificates from the connection's filter state.

use std::cell::RefCell;

use super::*;
use crate::x509::KnownChains;

const HEADER: &str = "x-forwarded-client-cert";

/// A request on a connection with this handshake: the user who goes upstream, or the refusal.
struct Connection<'a> {
    fixture: &'a Fixture,
    known: RefCell<KnownChains>,
}

impl Connection<'_> {
    fn user(&self, leaf: Option<&[u8]>, text: Option<&[u8]>, header: Option<&str>) -> Result<Vec<String>, Cause> {
        let lines: Vec<_> = header.map(|line| (HEADER, line)).into_iter().collect();
        let mut host = proxy(self.fixture, POD, &lines);
        host.chain = None;
        host.digest = leaf.map(|leaf| hex_digest(leaf).to_vec());
        host.certificate = text.map(testing::escaped_pem);
        host.known_chains.swap(&self.known);
        begin(self.fixture, &mut host);
        host.known_chains.swap(&self.known);
        assert!(values(&host, HEADER).is_empty());
        match (&host.reply, &host.destination) {
            (Some(reply), None) => Err(reply.cause),
            (None, Some(_)) => Ok(values(&host, "impersonate-user")),
            other => panic!("{other:?}"),
        }
    }
}

fn by_connection(fixture: &mut Fixture) {
    let config = FilterConfig { peer_source: PeerSource::Connection, ..FilterConfig::new("lab") };
    fixture.gateway = Gateway::compile(&config).unwrap();
}

#[test]
fn digest_names_a_certificate_only_once_it_was_read() {
    let mut fixture = fixture();
    by_connection(&mut fixture);
    let (alice, other) = (issue(testing::alice(), &fixture.ca), issue(testing::alice(), &fixture.ca));
    let connection = Connection { fixture: &fixture, known: RefCell::default() };
    let (alice, other) = (&alice[..], &other[..]);
    let named = Ok(vec!["alice".to_owned()]);
    let unreadable = Err(Cause::Unchecked);
    assert_eq!(connection.user(Some(alice), None, None), unreadable, "nothing was read");
    assert_eq!(connection.user(Some(other), Some(alice), None), unreadable, "a text of another certificate");
    assert_eq!(connection.user(Some(alice), Some(alice), None), named);
    assert_eq!(connection.user(Some(alice), None, None), named, "it was read");
    assert_eq!(connection.user(Some(other), None, None), unreadable, "of this one nothing was read");
    assert_eq!(connection.user(Some(other), Some(alice), None), unreadable);
    let nobody = connection.user(None, Some(alice), None);
    assert!(nobody.is_err() || nobody == Ok(Vec::new()) || nobody == Ok(vec!["system:anonymous".to_owned()]));
    assert_ne!(nobody, named, "no handshake with a certificate");
}

/// With certificates beside it the chain is another one: what was read of that counts for its header alone.
#[test]
fn chain_by_header_does_not_count_as_a_certificate_alone() {
    let mut fixture = fixture();
    by_connection(&mut fixture);
    let alice = issue(testing::alice(), &fixture.ca);
    let connection = Connection { fixture: &fixture, known: RefCell::default() };
    let chain = format!(
        "Chain=\"{}{}\"",
        testing::escaped_pem(&alice),
        testing::escaped_pem(&issue(testing::alice(), &fixture.ca))
    );
    assert_eq!(connection.user(Some(&alice), None, Some(&chain)), Ok(vec!["alice".to_owned()]));
    assert_eq!(connection.user(Some(&alice), None, None), Err(Cause::Unchecked));
    assert_eq!(connection.user(Some(&alice), Some(&alice), None), Ok(vec!["alice".to_owned()]));
    assert_eq!(connection.user(Some(&alice), Some(&alice), Some(&chain)), Ok(vec!["alice".to_owned()]));
    assert_eq!(connection.user(None, None, Some(&chain)), Err(Cause::Unchecked));
}

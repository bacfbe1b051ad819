//! Certificates from the connection's filter state.

use std::cell::RefCell;

use super::*;
use crate::x509::KnownChains;

const HEADER: &str = "x-forwarded-client-cert";

/// A request's connection as Envoy describes it: the digest of the handshake, the certificate in filter state, and the header.
#[derive(Clone, Copy, Default)]
struct Connection<'a> {
    digest: Option<&'a [u8]>,
    certificate: Option<&'a [u8]>,
    header: Option<&'a str>,
}

/// A worker, whose chains outlive requests, connections and clusters.
#[derive(Default)]
struct Worker {
    known: RefCell<KnownChains>,
}

impl Worker {
    /// The user who goes upstream, or the refusal.
    fn user(&self, fixture: &Fixture, connection: Connection<'_>) -> Result<Vec<String>, Cause> {
        let lines: Vec<_> = connection.header.map(|line| (HEADER, line)).into_iter().collect();
        let mut host = proxy(fixture, POD, &lines);
        host.chain = None;
        host.digest = connection.digest.map(<[u8]>::to_vec);
        host.certificate = connection.certificate.map(testing::escaped_pem);
        host.known_chains.swap(&self.known);
        begin(fixture, &mut host);
        host.known_chains.swap(&self.known);
        assert!(values(&host, HEADER).is_empty());
        match (&host.reply, &host.destination) {
            (Some(reply), None) => Err(reply.cause),
            (None, Some(_)) => Ok(values(&host, "impersonate-user")),
            other => panic!("{other:?}"),
        }
    }
}

fn by_connection() -> Fixture {
    let config = FilterConfig { peer_source: PeerSource::Connection, ..FilterConfig::new("lab") };
    Fixture { gateway: Gateway::compile(&config).unwrap(), ..fixture() }
}

fn alice() -> Result<Vec<String>, Cause> {
    Ok(vec!["alice".to_owned()])
}

const UNREADABLE: Result<Vec<String>, Cause> = Err(Cause::Unchecked);

#[test]
fn digest_names_a_certificate_only_once_it_was_read() {
    let (fixture, worker) = (by_connection(), Worker::default());
    let (hers, other) = (issue(testing::alice(), &fixture.ca), issue(testing::alice(), &fixture.ca));
    let user = |leaf: &[u8], certificate| {
        worker.user(&fixture, Connection { digest: Some(&hex_digest(leaf)), certificate, header: None })
    };
    assert_eq!(user(&hers, None), UNREADABLE, "nothing was read");
    assert_eq!(user(&other, Some(&hers)), UNREADABLE, "a text of another certificate");
    assert_eq!(user(&hers, Some(&hers)), alice());
    assert_eq!(user(&hers, None), alice(), "it was read");
    assert_eq!(user(&other, None), UNREADABLE, "of this one nothing was read");
    assert_eq!(user(&other, Some(&hers)), UNREADABLE);
}

/// No client becomes anonymous because Envoy has lost a part of what it knew, and none becomes the one who was read before.
#[test]
fn certificate_without_its_digest_is_unreadable() {
    let (fixture, worker) = (by_connection(), Worker::default());
    let hers = issue(testing::alice(), &fixture.ca);
    let digest = hex_digest(&hers);
    let (upper, twice) = (digest.to_ascii_uppercase(), [&digest[..], b",", &digest[..]].concat());
    let certificate = Some(&hers[..]);
    for _ in 0..2 {
        for digest in [None, Some(&b""[..]), Some(&digest[..63]), Some(&upper), Some(&twice)] {
            let connection = Connection { digest, certificate, header: None };
            assert_eq!(worker.user(&fixture, connection), UNREADABLE, "{digest:?}");
        }
        let connection = Connection { digest: Some(&digest), certificate, header: None };
        assert_eq!(worker.user(&fixture, connection), alice());
    }
    let nothing = worker.user(&fixture, Connection::default());
    assert_eq!(nothing, worker.user(&fixture, Connection { digest: Some(b""), ..Connection::default() }));
    assert_ne!(nothing, UNREADABLE, "a client without a certificate");
    assert_ne!(nothing, alice());
}

/// With certificates beside it the chain is another one: what was read of that counts for its header alone.
#[test]
fn chain_by_header_does_not_count_as_a_certificate_alone() {
    let (fixture, worker) = (by_connection(), Worker::default());
    let hers = issue(testing::alice(), &fixture.ca);
    let digest = hex_digest(&hers);
    let beside = testing::escaped_pem(&issue(testing::alice(), &fixture.ca));
    let chain = format!("Chain=\"{}{beside}\"", testing::escaped_pem(&hers));
    let user = |digest, certificate, header| worker.user(&fixture, Connection { digest, certificate, header });
    assert_eq!(user(Some(&digest), None, Some(&chain)), alice());
    assert_eq!(user(Some(&digest), None, None), UNREADABLE);
    assert_eq!(user(Some(&digest), Some(&hers), None), alice());
    assert_eq!(user(Some(&digest), Some(&hers), Some(&chain)), alice());
    assert_eq!(user(None, None, Some(&chain)), UNREADABLE);
}

/// A worker serves all clusters, and a certificate that was read for one of them is nothing but read.
#[test]
fn certificate_that_was_read_is_judged_by_each_clusters_ca() {
    let (fixture, other, worker) = (by_connection(), by_connection(), Worker::default());
    let (hers, forged) = (issue(testing::alice(), &fixture.ca), issue(testing::alice(), &other.ca));
    for _ in 0..2 {
        for (cluster, leaf, expected) in [
            (&fixture, &hers, alice()),
            (&other, &hers, Err(Cause::Unauthorized)),
            (&fixture, &forged, Err(Cause::Unauthorized)),
            (&other, &forged, alice()),
        ] {
            for certificate in [Some(&leaf[..]), None] {
                let connection = Connection { digest: Some(&hex_digest(leaf)), certificate, header: None };
                assert_eq!(worker.user(cluster, connection), expected);
            }
        }
    }
}

//! Clients that try to be another user: by the words in their certificate, by headers about certificates, by another cluster's
//! token, by requests inside of requests.

use portcullis_e2e::{GatewayOptions, Manifest};
use portcullis_harness::certs::{Ca, CertSpec, Identity, self_signed};
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_stub_apiserver::{StubServer, TokenEntry};

use crate::fixture::{NAME, PODS, Pki, ROBOT, StubFixture, connect};

const OTHER: &str = "other.example.com";

/// A certificate in the encoding of Envoy's header.
fn escaped(identity: &Identity) -> String {
    identity.pem().replace('\n', "%0A").replace(' ', "%20").replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")
}

/// The headers that a client may write about alice's certificate, which is no secret.
fn claims(alice: &Identity) -> Vec<String> {
    let (name, chain) = ("X-Forwarded-Client-Cert", escaped(alice));
    let hash = "0".repeat(64);
    let values = [
        format!("Chain=\"{chain}\""),
        format!("Hash={hash};Cert=\"{chain}\";Chain=\"{chain}\";Subject=\"CN=alice,O=dev\""),
        format!("By=spiffe://a;Hash={hash};Chain=\"{chain}\",Hash={hash};Chain=\"{chain}\""),
        format!("Chain={chain}"),
    ];
    let lines = values.iter().flat_map(|value| {
        [
            format!("{name}: {value}\r\n"),
            format!("{name}: {value}\r\n{name}: {value}\r\n"),
            format!("x-FORWARDED-client-cert: {value}\r\n"),
            format!("X_Forwarded_Client_Cert: {value}\r\n"),
            format!("{name}: {value}\r\nConnection: {name}\r\n"),
            format!("Connection: {name}\r\n"),
        ]
    });
    lines.collect()
}

/// The sender in the server's record, if the request reached it at all.
fn forwarded_user(fixture: &StubFixture, target: &TlsTarget, lines: &str) -> (u16, Option<String>) {
    fixture.stub.clear();
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\n{lines}\r\n");
    let mut connection = target.connect().unwrap();
    connection.write(request.as_bytes()).unwrap();
    let status = connection.read_response(false).unwrap().status;
    let seen = fixture.client_records().pop();
    (status, seen.map(|record| record.header("impersonate-user").unwrap_or_default()))
}

#[test]
fn client_headers_about_certificates_are_not_trusted() {
    let fixture = StubFixture::start("claims", &GatewayOptions::default());
    let nobody = fixture.gateway.target(NAME);
    let bob = nobody.clone().identity(&fixture.pki.client_ca.issue(&CertSpec::client("bob", [""; 0])).unwrap());
    let mallory = nobody.clone().identity(&self_signed(&CertSpec::client("alice", ["dev"])).unwrap());
    for lines in claims(&fixture.pki.alice) {
        let (_, user) = forwarded_user(&fixture, &nobody, &lines);
        assert!(user.as_deref().is_none_or(str::is_empty), "nobody is {user:?} by {lines}");
        let (status, user) = forwarded_user(&fixture, &bob, &lines);
        assert!(
            (status, user.as_deref()) == (200, Some("bob")) || (status >= 400 && user.is_none()),
            "{user:?}: {lines}"
        );
        let (status, user) = forwarded_user(&fixture, &mallory, &lines);
        assert!(status >= 400 && user.is_none(), "mallory is {user:?} by {lines}");
    }
}

/// Words that would end a field of a header, and begin another.
fn words(alice: &Identity) -> [String; 6] {
    let chain = escaped(alice);
    [
        "\";Chain=\"x".to_owned(),
        format!("x\";Chain=\"{chain}\";Subject=\"CN=alice"),
        format!("x,Hash=0;Chain=\"{chain}\""),
        "x\\\";Subject=\\\"CN=alice,O=system:masters".to_owned(),
        "alice\\".to_owned(),
        "x/CN=alice".to_owned(),
    ]
}

#[test]
fn certificates_words_make_nobody_somebody_else() {
    let fixture = StubFixture::start("words", &GatewayOptions::default());
    let (nobody, stranger) = (fixture.gateway.target(NAME), Ca::new("strangers").unwrap());
    for word in words(&fixture.pki.alice) {
        let names = CertSpec { dns: vec![word.clone()], uris: vec![word.clone()], ..CertSpec::client("bob", [""; 0]) };
        let specs = [names, CertSpec::client(&word, ["dev"]), CertSpec::client("bob", [&word])];
        for spec in specs {
            let own = String::from_utf8(spec.common_names[0].clone()).unwrap();
            let signed = nobody.clone().identity(&fixture.pki.client_ca.issue(&spec).unwrap());
            let (status, user) = forwarded_user(&fixture, &signed, "");
            let is_own = user.as_deref().is_none_or(|user| user == own);
            assert!(is_own && (user.is_some() || status >= 400), "{word}: {status} {user:?}");
            let forged = nobody.clone().identity(&stranger.issue(&spec).unwrap());
            assert_eq!(forwarded_user(&fixture, &forged, ""), (401, None), "{word}");
        }
    }
}

/// Certificates that the client sends behind its own count as issuers, never as its own.
#[test]
fn another_users_certificate_in_the_chain_is_no_identity() {
    let fixture = StubFixture::start("chains", &GatewayOptions::default());
    let (nobody, pki) = (fixture.gateway.target(NAME), &fixture.pki);
    let mallory = self_signed(&CertSpec::client("mallory", [""; 0])).unwrap();
    let bob = pki.client_ca.issue(&CertSpec::client("bob", [""; 0])).unwrap();
    assert_eq!(forwarded_user(&fixture, &nobody.clone().identity(&mallory.followed_by(&pki.alice)), ""), (401, None));
    for _ in 0..2 {
        let (status, user) = forwarded_user(&fixture, &nobody.clone().identity(&bob.followed_by(&pki.alice)), "");
        assert!(matches!((status, user.as_deref()), (200, Some("bob")) | (401, None)), "{status} {user:?}");
    }
}

/// The same words are one user's token at one cluster and another's at the other, on each worker.
#[test]
fn token_is_whose_it_is_at_each_cluster() {
    let fixture = StubFixture::start("same-token", &GatewayOptions::default());
    let pki = Pki::new();
    let twin = TokenEntry { user: "twin".to_owned(), ..TokenEntry::default() };
    let other = StubServer::start(pki.stub_options("other").token(ROBOT, twin)).unwrap();
    let manifest = Manifest::new(OTHER, [other.address()])
        .upstream(&pki.gateway, &pki.server_ca, "kubernetes")
        .serving(&fixture.gateway.serving_identity(OTHER).unwrap(), &pki.client_ca);
    fixture.gateway.apply(&manifest).unwrap();
    let authorization = format!("Bearer {ROBOT}");
    for _ in 0..12 {
        for (name, stub, user) in [(NAME, &fixture.stub, "robot"), (OTHER, &other, "twin")] {
            let client = connect(&fixture.gateway.target(name));
            assert_eq!(client.get(PODS, &[("authorization", &authorization)]).unwrap().status, 200, "{name}");
            let record = stub.records_for(PODS).pop().unwrap();
            assert_eq!(record.header_all("impersonate-user"), [user], "{name}");
            near_misses(&client);
        }
    }
    let certificate = connect(&fixture.gateway.target(OTHER).identity(&fixture.pki.alice));
    assert_eq!(certificate.get(PODS, &[]).unwrap().status, 401, "another cluster's user");
}

fn near_misses(client: &H2Client) {
    for token in [format!("{ROBOT}/{NAME}"), format!("{NAME}/{ROBOT}"), format!("{ROBOT};"), ROBOT.to_uppercase()] {
        let answer = client.get(PODS, &[("authorization", &format!("Bearer {token}"))]).unwrap();
        assert_eq!(answer.status, 401, "{token}");
    }
}

/// A request inside of another's body is sent with no user's rights, for any form of its length.
#[test]
fn request_inside_of_a_request_is_nobody_elses() {
    let fixture = StubFixture::start("lengths", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    let inner = format!("GET {secrets} HTTP/1.1\r\nHost: {NAME}\r\nX-Remote-User: admin\r\n\r\n");
    let length = inner.len();
    let framings = [
        format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{inner}"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n{inner}"),
        format!("Content-Length: 0\r\nContent-Length: {length}\r\n\r\n{inner}"),
        format!("Content-Length: 0, {length}\r\n\r\n{inner}"),
        format!("Content-Length: +{length}\r\n\r\n{inner}"),
        format!("Content-Length : {length}\r\n\r\n{inner}"),
        format!("Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{inner}"),
        format!("Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{inner}"),
        format!("Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n{inner}"),
        format!("Transfer-Encoding: chunked\r\n\r\n0;x=\n\r\n\r\n{inner}"),
        format!("X: a\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{inner}"),
        format!("Transfer-Encoding: chunked\n\r\n0\r\n\r\n{inner}"),
    ];
    std::thread::scope(|scope| {
        for framing in &framings {
            let target = &target;
            scope.spawn(move || {
                let mut connection = target.connect().unwrap();
                let request = format!("POST {PODS} HTTP/1.1\r\nHost: {NAME}\r\n{framing}");
                connection.write(request.as_bytes()).unwrap();
                assert!(connection.read_response(false).is_ok_and(|answer| answer.status >= 200), "{framing}");
            });
        }
    });
    for record in fixture.client_records() {
        assert_eq!(record.header_all("impersonate-user"), ["alice"], "{record:?}");
        assert!(record.header_names_with_prefix("x-remote-").is_empty(), "{record:?}");
    }
}

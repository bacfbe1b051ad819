//! Credentials that disagree, or are no good: the gateway takes the sender for whom kube-apiserver does, or refuses as it does.

use portcullis_e2e::GatewayOptions;
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::TlsTarget;
use portcullis_harness::kube::KubeOptions;
use serde_json::{Value, json};

use crate::fixture::{Identities, KubeFixture, NAME};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEW: &str = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
/// `base64url.bearer.authorization.k8s.io.` and a token.
const SUBPROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// The credentials of a client.
struct Case {
    name: &'static str,
    identity: Option<Identity>,
    lines: Vec<(&'static str, String)>,
}

/// Status and user, or status and reason.
type Outcome = (u16, Value);

fn send(target: TlsTarget, case: &Case) -> Outcome {
    let target = case.identity.iter().fold(target, |target, identity| target.identity(identity));
    let lines: String = case.lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!(
        "POST {REVIEWS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n{lines}\r\n{REVIEW}",
        REVIEW.len()
    );
    let response = target.raw_request(request.as_bytes()).unwrap();
    let mut body = response.json().unwrap_or_default();
    let told = match response.status {
        201 => body["status"]["userInfo"].take(),
        _ => body["reason"].take(),
    };
    (response.status, told)
}

fn cases(fixture: &KubeFixture) -> Vec<Case> {
    let token = |name: &str| {
        fixture.admin(&["create", "serviceaccount", name]);
        fixture.admin(&["create", "token", name]).trim().to_owned()
    };
    let (robot, deputy) = (token("robot"), token("deputy"));
    let bad = format!("{robot}x");
    let alice = || Some(fixture.alice.clone());
    let expired = || Some(fixture.kube.client_ca().issue(&CertSpec::client("alice", ["dev"]).expired()).unwrap());
    let stranger = || Some(Ca::new("others").unwrap().issue(&CertSpec::client("alice", ["dev"])).unwrap());
    let server = || Some(fixture.kube.client_ca().issue(&CertSpec::server("alice", ["alice"])).unwrap());
    let bearer = |token: &str| ("Authorization", format!("Bearer {token}"));
    let line = |value: &str| ("Authorization", value.to_owned());
    let encoded = |token: &str| {
        use base64::Engine;
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token)
    };
    let socket =
        |token: &str| ("Sec-WebSocket-Protocol", format!("{SUBPROTOCOL}{}, v4.channel.k8s.io", encoded(token)));
    let case = |name, identity, lines: Vec<(&'static str, String)>| Case { name, identity, lines };
    vec![
        case("nothing", None, vec![]),
        case("a certificate", alice(), vec![]),
        case("a token", None, vec![bearer(&robot)]),
        case("a bad token", None, vec![bearer(&bad)]),
        case("an expired certificate", expired(), vec![]),
        case("a stranger's certificate", stranger(), vec![]),
        case("a server's certificate", server(), vec![]),
        case("a certificate and somebody else's token", alice(), vec![bearer(&robot)]),
        case("a certificate and a bad token", alice(), vec![bearer(&bad)]),
        case("an expired certificate and a token", expired(), vec![bearer(&robot)]),
        case("an expired certificate and a bad token", expired(), vec![bearer(&bad)]),
        case("a stranger's certificate and a token", stranger(), vec![bearer(&robot)]),
        case("a stranger's certificate and a bad token", stranger(), vec![bearer(&bad)]),
        case("a server's certificate and a token", server(), vec![bearer(&robot)]),
        case("an empty token", None, vec![line("Bearer ")]),
        case("the scheme alone", None, vec![line("Bearer")]),
        case("nothing as authorization", None, vec![line("")]),
        case("a certificate and an empty token", alice(), vec![line("Bearer ")]),
        case("the scheme in other letters", None, vec![("Authorization", format!("bEARER {robot}"))]),
        case("two blanks", None, vec![("Authorization", format!("Bearer  {robot}"))]),
        case("a token and a word", None, vec![("Authorization", format!("Bearer {robot} x"))]),
        case("a password", None, vec![line("Basic YWRtaW46YWRtaW4=")]),
        case("a certificate and a password", alice(), vec![line("Basic YWRtaW46YWRtaW4=")]),
        case("two tokens", None, vec![bearer(&robot), bearer(&deputy)]),
        case("a bad token before a good one", None, vec![bearer(&bad), bearer(&robot)]),
        case("a certificate and two tokens", alice(), vec![bearer(&robot), bearer(&deputy)]),
        case("a token as subprotocol off upgrades", None, vec![socket(&robot)]),
        case("a token, another one as subprotocol", None, vec![bearer(&robot), socket(&deputy)]),
        case("a certificate, a token as subprotocol", alice(), vec![socket(&robot)]),
    ]
}

/// The outcome where the gateway differs on purpose: several lines of a credential have more than one reading.
fn by_design(case: &Case, direct: Outcome) -> Outcome {
    let lines = case.lines.iter().filter(|(name, _)| *name == "Authorization").count();
    if lines > 1 { (400, json!("BadRequest")) } else { direct }
}

#[test]
fn credentials_that_disagree_are_judged_as_kube_apiserver_does() {
    for identities in Identities::ALL {
        let options = (&KubeOptions::default(), &GatewayOptions::default());
        let Some(fixture) = KubeFixture::forwarding(identities, "credentials", options.0, options.1) else { return };
        let direct = || {
            let address = fixture.kube.apiservers()[0].address();
            TlsTarget::new(address).trust(fixture.kube.server_ca()).sni("kubernetes.default.svc")
        };
        let (mut differing, mut believed) = (Vec::new(), 0);
        for case in cases(&fixture) {
            let expected = by_design(&case, send(direct(), &case));
            let through = send(fixture.target(), &case);
            believed += usize::from(expected.0 == 201);
            if through != expected {
                differing.push(format!("{}: {through:?} instead of {expected:?}", case.name));
            }
        }
        assert!(differing.is_empty(), "{identities:?}: {differing:#?}");
        assert!(believed > 10, "kube-apiserver believes {believed}");
    }
}

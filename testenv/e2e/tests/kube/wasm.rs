//! portcullis.wasm in front of a real kube-apiserver, in short, so that no change of the module's goes by it unseen. All of the
//! other tests here run with it, too: `make test-wasm`.

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::TlsTarget;
use portcullis_harness::deps;

use crate::fixture::{KubeFixture, NAME};
use crate::{kubectl, matrix, sessions};

#[test]
fn wasm_keeps_what_is_promised() {
    let options = GatewayOptions { wasm: Some(deps::wasm().unwrap()), ..GatewayOptions::default() };
    let Some(fixture) = sessions::execute_behind("wasm", &options) else { return };
    kubectl::everything_works(&fixture);
    matrix::forgeries_mean_nothing(&fixture, &fixture.alice);
    refusals_have_their_status(&fixture);
}

fn refusals_have_their_status(fixture: &KubeFixture) {
    let alice = fixture.target().identity(&fixture.alice);
    let nobody = TlsTarget::new(fixture.gateway.address()).sni("nobody.example.com");
    let cases = [
        (&alice, "Impersonate-Group: system:masters", 400, "BadRequest"),
        (&alice, "Authorization: Bearer a\r\nAuthorization: Bearer b", 400, "BadRequest"),
        (&fixture.target(), "Authorization: Bearer unheard-of", 401, "Unauthorized"),
        (&nobody, "Accept: */*", 503, "ServiceUnavailable"),
    ];
    for (target, header, status, reason) in cases {
        let request = format!("GET /api HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n{header}\r\n\r\n");
        let answer = target.raw_request(request.as_bytes()).unwrap();
        assert_eq!(answer.status, status, "{header}: {}", answer.text());
        assert_eq!(answer.json().unwrap()["reason"], reason, "{header}");
    }
}

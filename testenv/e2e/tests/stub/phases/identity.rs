//! Identity alone: every authenticated request goes on, whatever it asks for.

use super::{acted_as, bearer, start};
use crate::fixture::PODS;

#[test]
fn users_go_on_with_their_identity() {
    for (mode, front) in [("impersonate", "portcullis"), ("request-header", "front-proxy")] {
        let world = start(mode, |files| {
            let change = |text: String| {
                let (before, rest) = text.split_once("            policies:\n").unwrap();
                let (_, after) = rest.split_once("    # The filter names a destination").unwrap();
                format!("{before}            policies: All\n    # The filter names a destination{after}")
            };
            files.edit("routes.yaml", change).unwrap();
        });
        for (method, path) in [("GET", PODS), ("DELETE", PODS), ("GET", "/version"), ("PATCH", "/apis/x.io/v1/y/z")] {
            let (_, record) = world.request(Some(&world.pki.alice), method, path, &[]);
            let record = record.unwrap_or_else(|| panic!("{mode}: {method} {path} goes on"));
            assert_eq!((acted_as(&record), record.peer_common_name.as_deref()), ("alice", Some(front)), "{mode}");
        }
        let authorization = bearer();
        let (_, record) = world.request(None, "GET", PODS, &[("authorization", &authorization)]);
        assert_eq!(acted_as(&record.unwrap()), "robot", "{mode}");
        let forged = [("x-remote-user", "admin"), ("x-remote-group", "system:masters")];
        let (response, record) = world.request(None, "GET", PODS, &forged);
        assert_eq!(response.status, 403, "{mode}: as nobody");
        assert_eq!(record.unwrap().peer_common_name, None, "{mode}");
    }
}

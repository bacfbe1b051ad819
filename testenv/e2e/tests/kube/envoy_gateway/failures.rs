//! Parts of the configuration that are gone, and a module that cannot be loaded: no request gets through.

use std::time::Duration;

use portcullis_harness::wait;

use super::fixture::{ADMIN, CONFIGMAPS, EnvoyGatewayFixture, OBJECT, OURS, envoy_of_the_release, eventually};

#[test]
fn requests_need_every_part_of_the_configuration() {
    let Some(fixture) = EnvoyGatewayFixture::start("eg-parts", false) else { return };
    fixture.answers("all of it", 200);
    for (part, name, status) in [
        // The filter. Routes that ask for its decision are left.
        ("envoyextensionpolicy", OBJECT, 503),
        // Routes and the cluster's configuration. The filter and the route of Envoy Gateway's making are left.
        ("envoypatchpolicy", OBJECT, 503),
        // The servers. The filter and its routes are left.
        ("envoypatchpolicy", "prod-example-com-servers", 503),
        // Options of the listener, among them that certificates are asked for: alice is anonymous.
        ("clienttrafficpolicy", OBJECT, 403),
    ] {
        fixture.admin(&["-n", OURS, "delete", part, name]);
        fixture.answers(&format!("without the {part} {name}"), status);
        fixture.restore();
        fixture.answers(&format!("with the {part} {name} again"), 200);
    }
    // A module that is not in the EnvoyProxy's list: Envoy Gateway leaves the filter out.
    let unlisted = r#"[{"op": "replace", "path": "/spec/dynamicModule/0/name", "value": "unlisted"}]"#;
    fixture.admin(&["-n", OURS, "patch", "envoyextensionpolicy", OBJECT, "--type=json", "-p", unlisted]);
    fixture.answers("with a module that is not listed", 503);
}

#[test]
fn module_that_is_not_loaded_closes_the_gateway() {
    let Some(mut fixture) = EnvoyGatewayFixture::start("eg-load", false) else { return };
    // A path without a file, and a file that is no library.
    let no_library = fixture.objects.display().to_string();
    for (number, path) in ["/nowhere/libportcullis.so", &no_library].into_iter().enumerate() {
        let patch =
            format!(r#"[{{"op": "replace", "path": "/spec/dynamicModules/0/source/local/path", "value": "{path}"}}]"#);
        fixture.admin(&["-n", OURS, "patch", "envoyproxy", OBJECT, "--type=json", "-p", &patch]);
        // A running proxy keeps the listener that it has, with the filter.
        if let Some(proxy) = &fixture.proxy {
            let refused = || proxy.admin().stat("listener_manager.lds.update_rejected").ok().filter(|count| *count > 0);
            wait::until("the listener is refused", Duration::from_secs(30), refused).unwrap();
            fixture.answers("the listener from before", 200);
        }
        drop(fixture.proxy.take());
        // One that starts has no listener.
        let fresh = fixture.site.proxy(&fixture.run, &format!("fresh-{number}"), envoy_of_the_release()).unwrap();
        eventually("a new proxy refuses the listener", || {
            match fresh.admin().stat("listener_manager.lds.update_rejected") {
                Ok(count) if count > 0 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        assert!(fixture.target().connect().is_err(), "{path}");
        assert!(fixture.ask(CONFIGMAPS, &ADMIN).is_none(), "{path}");
    }
}

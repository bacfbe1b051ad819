use super::*;

fn object(portcullis: &Value) -> Value {
    json!({
        "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster",
        "metadata": {"name": "a.test"},
        "spec": {
            "servers": [{"endpoint": "https://a.test"}],
            "clientConfig": {"insecure": true},
            "dispatchPolicies": [{"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}],
            "portcullis": portcullis,
        },
    })
}

fn shown(stage: &str, portcullis: &Value, protected: &[&str]) -> String {
    let protected = ProtectedIdentities {
        groups: protected.iter().map(|group| (*group).to_owned()).collect(),
        ..ProtectedIdentities::default()
    };
    let token = json!({"references": {"token": {"secret": {"name": "a"}}}});
    let mut document = object(portcullis);
    document["spec"]["portcullis"]["references"] = token["references"].clone();
    admitted::admitted(&with_stage(&document, "a.test", stage, false).unwrap(), &protected)
}

#[test]
fn stage_shows_who_is_let_in() {
    assert!(shown("frozen", &json!({}), &[]).contains("each is answered 429"));
    let heartbeats = shown("heartbeats", &json!({}), &["system:masters"]);
    for expected in [
        "200 at a time     get,create,update,… leases of coordination.k8s.io in kube-node-lease of group system:nodes",
        "without a limit   * * * of group kubeadm:cluster-admins,system:masters (system:masters refused or dropped: protectedIdentities)",
        "refused, 429      * * *",
    ] {
        assert!(heartbeats.contains(expected), "{expected}\n{heartbeats}");
    }
    assert!(
        shown("trickle", &json!({"operatorGroups": ["sre"]}), &[])
            .contains("without a limit           * * * of group sre")
    );
}

#[test]
fn stage_that_would_have_no_effect_is_refused() {
    let text = |stage: &str, object: Value| with_stage(&object, "a.test", stage, true).unwrap_err().to_string();
    assert!(text("night", object(&json!({}))).contains("is not the name of a profile"));
    let mut wrong = object(&json!({}));
    wrong["spec"]["servers"][0]["endpoint"] = json!("http://a.test");
    assert!(text("frozen", wrong).contains("spec.servers[0].endpoint"));
}

/// A right to write the status alone is none to keep an operator from closing the cluster.
#[test]
fn servers_in_the_status_keep_nobody_from_freezing() {
    let ca = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap().cert.pem();
    let ca = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, ca);
    let mut document = object(&json!({"discovery": {"service": {"namespace": "a", "name": "b"}}}));
    document["spec"]["clientConfig"] = json!({"caData": ca, "bearerToken": "YQ=="});
    let forged = ["10.6.6.6:6443", "169.254.169.254:80"].map(|address| json!({"address": address, "zone": ""}));
    for status in [json!({"unsupported": true}), json!({"servers": forged})] {
        document["status"] = json!({"discovered": status});
        let cluster = with_stage(&document, "a.test", "frozen", false).unwrap();
        assert_eq!(cluster.servers.len(), 1, "{status}");
    }
}

#[test]
fn loopback_servers_are_refused_where_the_settings_refuse_them() {
    let directory = tempfile::tempdir().unwrap();
    let mut local = object(&json!({"references": {"token": {"secret": {"name": "a"}}}}));
    local["spec"]["servers"][0]["endpoint"] = json!("https://127.0.0.1:6443");
    std::fs::write(directory.path().join("a.yaml"), local.to_string()).unwrap();
    let file = directory.path().join("profiles");
    let freeze = || {
        let object = ObjectArguments {
            name: "a.test".to_owned(),
            kubeconfig: None,
            context: None,
            profiles_file: Some(file.clone()),
            manifests: Some(directory.path().to_owned()),
            settings_name: None,
            dry_run: true,
        };
        freeze_by_file(&Freeze { stage: "frozen".to_owned(), object }, &file).map_err(|error| error.to_string())
    };
    assert_eq!(freeze(), Ok(()), "the settings are not among the files");
    let settings = |allow: bool| {
        let settings = json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings",
            "metadata": {"name": "default"}, "spec": {"allowLoopbackUpstreams": allow}});
        std::fs::write(directory.path().join("settings.yaml"), settings.to_string()).unwrap();
    };
    settings(true);
    assert_eq!(freeze(), Ok(()));
    settings(false);
    assert!(freeze().unwrap_err().contains("spec.servers[0].endpoint"));
}

#[test]
fn file_of_profiles_has_what_is_frozen_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("profiles.json");
    let manifest = directory.path().join("a.yaml");
    std::fs::write(&manifest, object(&json!({})).to_string()).unwrap();
    let arguments = |name: &str, manifests: Option<&Path>, dry_run| ObjectArguments {
        name: name.to_owned(),
        kubeconfig: None,
        context: None,
        profiles_file: Some(file.clone()),
        manifests: manifests.map(Path::to_owned),
        settings_name: None,
        dry_run,
    };
    let freeze = |name: &str, stage: &str, manifests: Option<&Path>, dry_run| {
        let arguments = Freeze { stage: stage.to_owned(), object: arguments(name, manifests, dry_run) };
        freeze_by_file(&arguments, &file).map_err(|error| error.to_string())
    };
    let thaw = |name: &str, ignore_annotation| {
        thaw_by_file(&Thaw { object: arguments(name, None, false), ignore_annotation }, &file).unwrap();
    };
    let names = || serde_json::to_value(read_profiles(&file).unwrap()).unwrap();
    assert!(freeze("a.test", "frozen", None, true).is_ok() && names() == json!({}));
    freeze("a.test", "frozen", None, false).unwrap();
    assert!(freeze("a.test", "night", None, false).unwrap_err().contains("by -f"));
    assert!(freeze("b.test", "heartbeats", Some(&manifest), false).unwrap_err().contains("no UpstreamCluster b.test"));
    freeze("b.test", "heartbeats", None, false).unwrap();
    assert_eq!(names(), json!({"a.test": "frozen", "b.test": "heartbeats"}));
    thaw("a.test", false);
    thaw("b.test", true);
    assert_eq!(names(), json!({"b.test": ""}));
    std::fs::remove_file(&file).unwrap();
    thaw("b.test", false);
    assert!(
        file.exists() && names() == json!({}),
        "a file that is gone is written, or the freeze that it named would last"
    );
}

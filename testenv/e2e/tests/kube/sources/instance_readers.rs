//! Tenants of instances read the status of their own, and no other: by tokens of a real kube-apiserver, with the rights that
//! `portcullis rbac --instance` prints.

use std::net::SocketAddr;
use std::process::Command;

use portcullis_harness::client::{Response, plain};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::{deps, wait};
use serde_json::{Value, json};

use super::control_plane::SOON;
use super::fixture::{NAMESPACE, SourceFixture, USER, printed};

/// The namespace of the tenants' service accounts.
const READERS: &str = "readers";
const TEAMS: [&str; 2] = ["a", "b"];

fn cluster(team: &str) -> String {
    format!("{team}.example.com")
}

fn account(team: &str) -> String {
    format!("system:serviceaccount:{READERS}:tenant-{team}")
}

/// Two instances with a cluster and a tenant each, whose right is effective, and a control plane whose pages need a login.
struct Site {
    fixture: SourceFixture,
    plane: ControlPlane,
}

impl Site {
    fn start(test: &str) -> Option<Self> {
        let fixture = SourceFixture::start(test)?;
        let rights = ["rbac", "--control-plane", "--namespace", NAMESPACE, "--user", USER, "--instances"];
        fixture.apply(&printed(&rights));
        fixture.admin(&["create", "namespace", READERS]);
        let objects: Vec<String> = TEAMS.into_iter().flat_map(|team| objects(&fixture, team)).collect();
        let files = fixture.run.make_dir("files").unwrap();
        std::fs::write(files.join("all.yaml"), objects.join("\n---\n")).unwrap();
        for object in &objects {
            fixture.apply(object);
        }
        for team in TEAMS {
            fixture.admin(&["create", "serviceaccount", &format!("tenant-{team}"), "-n", READERS]);
            let directory = files.display().to_string();
            fixture.apply(&printed(&["rbac", "--instance", team, "--user", &account(team), "-f", &directory]));
            // A right that is denied at first would be asked for again after minutes.
            let user = account(team);
            let asked = ["get", "instances", team, "--as", &user];
            let has_right = || fixture.kubectl(&asked).run().unwrap().success().then_some(());
            wait::until("the tenant's right", SOON, has_right).unwrap();
        }
        let flags = fixture.kubernetes_flags(&fixture.settings.display().to_string());
        let more = ["--instances", "--http-review-interval", "2s"];
        let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more).collect();
        let plane = ControlPlane::start_behind_login(&fixture.run.make_dir("plane").unwrap(), &flags).unwrap();
        Some(Self { fixture, plane })
    }

    fn address(&self) -> SocketAddr {
        self.plane.http_address()
    }

    fn token(&self, team: &str) -> String {
        self.fixture.admin(&["create", "token", &format!("tenant-{team}"), "-n", READERS]).trim().to_owned()
    }

    fn ask(&self, token: &str, path: &str) -> Response {
        let bearer = format!("Bearer {token}");
        plain::request(self.address(), "GET", path, &[("authorization", &bearer)], b"").unwrap()
    }

    /// Waits until the status of an instance has its cluster; the status.
    fn wait_status(&self, token: &str, team: &str) -> Value {
        wait::until_ok(&format!("the status of {team}"), SOON, || {
            let answer = self.ask(token, &format!("/status?instance={team}"));
            let has_cluster = answer.status == 200 && answer.text().contains(&cluster(team));
            if has_cluster { Ok(answer.json().unwrap()) } else { Err(answer.text()) }
        })
        .unwrap()
    }

    /// The output of `portcullis status --instance` with a token.
    fn printed_status(&self, token: &str, instance: &str) -> String {
        let file = self.fixture.run.join("token");
        portcullis_harness::write_private(&file, token.as_bytes()).unwrap();
        let address = self.address().to_string();
        let file = file.display().to_string();
        let arguments = ["status", "--address", &address, "--token-file", &file, "--instance", instance];
        let output = Command::new(deps::portcullis().unwrap()).args(arguments).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }
}

/// An instance, and a cluster that it selects.
fn objects(fixture: &SourceFixture, team: &str) -> [String; 2] {
    let spec = json!({"clustersSelector": {"matchLabels": {"team": team}}});
    let metadata = json!({"name": team});
    let instance =
        json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": "Instance", "metadata": metadata, "spec": spec});
    [instance.to_string(), fixture.manifest(&cluster(team)).set("/metadata/labels", json!({"team": team})).to_text()]
}

fn names(value: &Value, field: &str) -> Vec<String> {
    let all = value[field].as_array().cloned().unwrap_or_default();
    all.iter().map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn tenant_reads_the_status_of_its_instance_by_a_token() {
    let Some(site) = Site::start("instances-readers") else { return };
    let tokens = TEAMS.map(|team| site.token(team));
    for ((team, token), other) in TEAMS.into_iter().zip(&tokens).zip(["b", "a"]) {
        let status = site.wait_status(token, team);
        let mut found = names(&status, "objects");
        found.sort_unstable();
        assert_eq!(found, [team.to_owned(), cluster(team)]);
        assert!(!status.to_string().contains(&cluster(other)), "{status:#}");
        let fleet = site.ask(token, "/ui/api/fleet").json().unwrap();
        assert_eq!(
            (names(&fleet, "instances"), names(&fleet, "clusters")),
            (vec![team.to_owned()], vec![cluster(team)])
        );
        // Another instance, one that does not exist, and everything: one answer.
        let refusals = ["/status", "/status?instance=gone"].map(|path| site.ask(token, path));
        let of_other = site.ask(token, &format!("/status?instance={other}"));
        for refusal in &refusals {
            assert_eq!((refusal.status, refusal.text()), (403, of_other.text()));
        }
        let printed = site.printed_status(token, team);
        assert!(printed.contains(&cluster(team)) && printed.contains("Conflicted"), "{printed}");
        let [of_other, of_none] = [other, "gone"].map(|instance| site.printed_status(token, instance));
        assert!(of_other.contains("does not let this user read it") && of_other == of_none, "{of_other}{of_none}");
    }
    // The right is taken away from one of them.
    site.fixture.admin(&["delete", "clusterrolebinding", "portcullis-instance-a"]);
    wait::until("the right is gone", SOON, || (site.ask(&tokens[0], "/status?instance=a").status == 403).then_some(()))
        .unwrap();
    site.wait_status(&tokens[1], "b");
}

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use time::{Duration, OffsetDateTime};

use super::arguments::StoreArguments;
use super::authority::Renewal;
use super::files::Layout;
use super::forget::Forgotten;
use super::layout::lay_out;
use super::release::Release;
use super::settings::Settings;

const DAY: Duration = Duration::DAY;

fn start() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap()
}

fn arguments(members: &[&str]) -> StoreArguments {
    StoreArguments {
        etcd: Some("/usr/bin/etcd".into()),
        kube_apiserver: Some("/usr/bin/kube api'server".into()),
        members: members.iter().map(|member| member.parse().unwrap()).collect(),
        ..StoreArguments::default()
    }
}

fn run(dir: &Path, arguments: &StoreArguments, now: OffsetDateTime, all: bool) -> Vec<String> {
    let mut layout = Layout::open(dir).unwrap();
    let settings = Settings::of(&layout, arguments, &[]).unwrap();
    lay_out(&mut layout, &settings, None, Renewal { now, all }).unwrap();
    layout.written().to_vec()
}

/// Every file below a directory with its mode and content, and every directory with its mode.
fn tree(dir: &Path, into: &mut BTreeMap<String, (u32, Vec<u8>)>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.metadata().unwrap();
        let content = if metadata.is_dir() { Vec::new() } else { std::fs::read(&path).unwrap() };
        into.insert(path.display().to_string(), (metadata.permissions().mode(), content));
        if metadata.is_dir() {
            tree(&path, into);
        }
    }
}

fn all_of(dir: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut all = BTreeMap::new();
    tree(dir, &mut all);
    all
}

fn store() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    (dir, root)
}

#[test]
fn second_run_changes_no_byte() {
    let (_dir, root) = store();
    let first = run(&root, &arguments(&[]), start(), false);
    assert!(first.len() > 20, "{first:?}");
    let before = all_of(&root);
    assert_eq!(run(&root, &StoreArguments::default(), start() + DAY * 200, false), Vec::<String>::new());
    assert_eq!(all_of(&root), before);
}

#[test]
fn keys_are_for_their_owner_only() {
    let (_dir, root) = store();
    run(&root, &arguments(&["a=10.0.0.1", "b=10.0.0.2", "c=10.0.0.3"]), start(), false);
    assert_eq!(root.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let mut keys = 0;
    for (path, (mode, content)) in all_of(&root) {
        let text = String::from_utf8_lossy(&content).into_owned();
        let is_secret = text.contains("PRIVATE KEY") || text.contains("client-key-data") || text.contains("secretbox");
        keys += usize::from(is_secret);
        let open = mode & 0o077;
        assert!(open == 0 || (!is_secret && mode & 0o777 == 0o644), "{path}: {mode:o}");
    }
    // Three CAs and the accounts' key; the admin; and of each member three pairs, a kubeconfig and the accounts' key.
    assert_eq!(keys, 4 + 1 + 1 + 3 * (3 + 1 + 1 + 1));
}

#[test]
fn no_key_of_an_authority_is_in_a_members_directory() {
    let (_dir, root) = store();
    run(&root, &arguments(&["a=10.0.0.1", "b=10.0.0.2"]), start(), false);
    for ca in ["server-ca", "client-ca", "etcd-ca"] {
        let key = std::fs::read_to_string(root.join(format!("authority/{ca}.key"))).unwrap();
        let secret = key.lines().nth(1).unwrap().to_owned();
        for (path, (_, content)) in all_of(&root.join("members")) {
            assert!(!String::from_utf8_lossy(&content).contains(&secret), "{path}");
        }
    }
}

#[test]
fn certificates_near_their_end_keep_subject_and_authority() {
    let (_dir, root) = store();
    run(&root, &arguments(&[]), start(), false);
    let before = all_of(&root);
    let early = run(&root, &StoreArguments::default(), start() + DAY * 274, false);
    assert_eq!(early, Vec::<String>::new());
    let late = run(&root, &StoreArguments::default(), start() + DAY * 276, false);
    let pairs = ["pki/kube-apiserver.pem", "pki/etcd.pem", "pki/etcd-client.pem", "control-plane.kubeconfig"];
    let mut expected: Vec<String> = pairs.iter().map(|name| format!("members/local/{name}")).collect();
    expected.push("admin.kubeconfig".to_owned());
    assert_eq!(late, expected);
    let asked = run(&root, &StoreArguments::default(), start() + DAY * 276, true);
    assert_eq!(asked, expected, "--renew renews what is fresh, too");
    for name in ["pki/kube-apiserver.pem", "pki/etcd.pem", "pki/etcd-client.pem"] {
        let path = root.canonicalize().unwrap().join("members/local").join(name);
        let old = &before[&root.join("members/local").join(name).display().to_string()].1;
        assert_eq!(facts(old), facts(&std::fs::read(path).unwrap()), "{name}");
    }
}

/// Subject, issuer and names: what a renewal keeps.
fn facts(pem: &[u8]) -> (String, String, Option<String>) {
    use rustls_pki_types::pem::PemObject;
    let der = rustls_pki_types::CertificateDer::from_pem_slice(pem).unwrap();
    let (_, certificate) = x509_parser::parse_x509_certificate(&der).unwrap();
    let names = certificate.subject_alternative_name().unwrap().map(|names| format!("{:?}", names.value));
    (certificate.subject().to_string(), certificate.issuer().to_string(), names)
}

#[test]
fn authority_that_ends_within_a_year_is_an_error() {
    let (_dir, root) = store();
    run(&root, &arguments(&[]), start(), false);
    let mut layout = Layout::open(&root).unwrap();
    let settings = Settings::of(&layout, &StoreArguments::default(), &[]).unwrap();
    let late = Renewal { now: start() + DAY * 3300, all: false };
    let error = lay_out(&mut layout, &settings, None, late).unwrap_err().to_string();
    assert!(error.contains("ends within a year"), "{error}");
}

#[test]
fn flags_are_remembered_and_changed() {
    let (_dir, root) = store();
    run(&root, &arguments(&["a=10.0.0.1", "b=10.0.0.2", "c=10.0.0.3"]), start(), false);
    let script = |member: &str, name: &str| {
        std::fs::read_to_string(root.join(format!("members/{member}/start/{name}"))).unwrap()
    };
    let cluster = "--initial-cluster='a=https://10.0.0.1:2380,b=https://10.0.0.2:2380,c=https://10.0.0.3:2380'";
    for member in ["a", "b", "c"] {
        assert!(script(member, "etcd").contains(cluster), "{}", script(member, "etcd"));
    }
    assert!(script("b", "kube-apiserver").contains("--etcd-servers='https://10.0.0.2:2379' "));
    assert!(script("b", "kube-apiserver").contains(r"exec '/usr/bin/kube api'\''server'"));
    let more = StoreArguments { server_names: vec!["store.example.com".to_owned()], ..StoreArguments::default() };
    let changed = run(&root, &more, start(), false);
    let expected = ["a", "b", "c"].map(|member| format!("members/{member}/pki/kube-apiserver.pem"));
    assert_eq!(changed, [vec!["store.json".to_owned()], expected.to_vec()].concat(), "only what has the name");
}

#[test]
fn authentication_configuration_belongs_to_the_operator() {
    let (_dir, root) = store();
    run(&root, &arguments(&[]), start(), false);
    let path = root.join("members/local/config/authentication.json");
    std::fs::write(&path, "{}").unwrap();
    run(&root, &StoreArguments::default(), start(), true);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}");
}

/// Each release gets what it reads; an unknown one changes nothing.
#[test]
fn authentication_configuration_follows_the_release() {
    let (_dir, root) = store();
    let path = root.join("members/local/config/authentication.json");
    let laid_out = |release: Option<&str>| {
        let mut layout = Layout::open(&root).unwrap();
        let settings = Settings::of(&layout, &arguments(&[]), &[]).unwrap();
        let release = release.map(|text| text.parse::<Release>().unwrap());
        lay_out(&mut layout, &settings, release, Renewal { now: start(), all: false }).unwrap();
        let config: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let version = config["apiVersion"].as_str().unwrap().rsplit_once('/').unwrap().1.to_owned();
        (version, config["anonymous"]["conditions"].as_array().map_or(0, Vec::len))
    };
    let table = [
        (None, "v1", 3),
        (Some("1.30"), "v1beta1", 0),
        (None, "v1beta1", 0),
        (Some("1.31"), "v1beta1", 0),
        (Some("1.32"), "v1beta1", 3),
        (Some("1.33"), "v1beta1", 3),
        (Some("1.34"), "v1", 3),
        (Some("1.33"), "v1beta1", 3),
        (Some("1.40"), "v1", 3),
    ];
    for (release, version, paths) in table {
        assert_eq!(laid_out(release), (version.to_owned(), paths), "{release:?}");
    }
}

/// The user of the units passes through directories that are root's.
#[test]
fn parents_that_the_operator_opened_stay_so() {
    let (_dir, root) = store();
    run(&root, &arguments(&[]), start(), false);
    let parents = [root.clone(), root.join("members")];
    for parent in &parents {
        std::fs::set_permissions(parent, std::fs::Permissions::from_mode(0o711)).unwrap();
    }
    assert!(!run(&root, &StoreArguments::default(), start(), true).is_empty());
    for parent in &parents {
        assert_eq!(parent.metadata().unwrap().permissions().mode() & 0o777, 0o711, "{}", parent.display());
    }
}

#[test]
fn flags_are_forgotten_and_others_taken() {
    let (_dir, root) = store();
    let given = StoreArguments {
        server_names: vec!["old.example.com".to_owned()],
        tenants: ["blue=b.example.com", "red=r.example.com"].map(|tenant| tenant.parse().unwrap()).to_vec(),
        ..arguments(&[])
    };
    run(&root, &given, start(), false);
    let layout = Layout::open(&root).unwrap();
    let forgotten = ["tenant=blue", "server-name", "etcd-flag"].map(|flag| flag.parse().unwrap());
    let settings = Settings::of(&layout, &StoreArguments::default(), &forgotten).unwrap();
    assert_eq!(settings.tenants.iter().map(|tenant| tenant.name.as_str()).collect::<Vec<_>>(), ["red"]);
    assert_eq!(settings.server_names, Vec::<String>::new());
    let error = Settings::of(&layout, &StoreArguments::default(), &["tenant=bleu".parse().unwrap()]).unwrap_err();
    assert!(error.to_string().contains("tenant=bleu"), "{error}");
    assert!("namespace".parse::<Forgotten>().is_err(), "a store has a namespace");
}

/// The user of a member's units owns its directory, and root runs `init`.
#[test]
fn links_in_a_members_directory_are_not_followed() {
    use std::os::unix::fs::symlink;

    let (dir, root) = store();
    run(&root, &arguments(&[]), start(), false);
    let outside = dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "of somebody else").unwrap();
    let member = root.join("members/local");
    for (name, is_hard) in [
        ("start", false),
        ("pki/etcd.pem", false),
        ("config/authentication.json", false),
        ("config/audit-policy.json", true),
    ] {
        let (path, kept) = (member.join(name), dir.path().join("kept"));
        let aim = if path.is_dir() { outside.clone() } else { outside.join("file") };
        std::fs::rename(&path, &kept).unwrap();
        if is_hard { std::fs::hard_link(aim, &path) } else { symlink(aim, &path) }.unwrap();
        let mut layout = Layout::open(&root).unwrap();
        let settings = Settings::of(&layout, &StoreArguments::default(), &[]).unwrap();
        let error = lay_out(&mut layout, &settings, None, Renewal { now: start(), all: true }).unwrap_err();
        assert!(error.to_string().contains(name), "{name}: {error}");
        std::fs::remove_file(&path).unwrap();
        std::fs::rename(&kept, &path).unwrap();
    }
    let outside = all_of(&outside);
    assert_eq!(outside.len(), 1, "{:?}", outside.keys());
    assert!(outside.values().all(|(mode, content)| mode & 0o777 == 0o644 && content == b"of somebody else"));
}

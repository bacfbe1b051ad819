use rcgen::{ExtendedKeyUsagePurpose, KeyPair};

use super::authority::{Authority, Renewal, Wanted};
use super::configuration::{audit_policy, authentication, encryption};
use super::files::Layout;
use super::kubeconfig::Kubeconfig;
use super::member::Member;
use super::programs::{etcd, kube_apiserver};
use super::release::Release;
use super::settings::Settings;
use super::{ADMIN_KUBECONFIG, CONTROL_PLANE_USER, InitError};

/// The parts that all members have in common.
struct Shared {
    server_ca: Authority,
    client_ca: Authority,
    /// Of its own: who has a certificate of this CA reads and writes everything past the kube-apiserver.
    etcd_ca: Authority,
    accounts: KeyPair,
    encryption: Vec<u8>,
}

/// Lays out everything that runs of etcd and kube-apiserver need.
pub(super) fn lay_out(
    layout: &mut Layout,
    settings: &Settings,
    release: Option<Release>,
    renewal: Renewal,
) -> Result<(), InitError> {
    settings.save(layout)?;
    let shared = Shared::open(layout, renewal)?;
    for member in &settings.members {
        lay_out_member(layout, settings, &shared, member, renewal)?;
        write_authentication(layout, &format!("members/{}/config/authentication.json", member.name), release)?;
    }
    let admin = Wanted::client("portcullis:admin", Some("system:masters"));
    kubeconfig(&shared, ADMIN_KUBECONFIG.to_owned(), &settings.first(), admin).write(layout, renewal)
}

impl Shared {
    fn open(layout: &mut Layout, renewal: Renewal) -> Result<Self, InitError> {
        let failed = |source| InitError::Certificate { name: "accounts".to_owned(), source };
        let accounts = layout.write_once("authority/accounts.key", 0o600, || {
            Ok(KeyPair::generate().map_err(failed)?.serialize_pem().into_bytes())
        })?;
        Ok(Self {
            server_ca: Authority::open(layout, "server-ca", renewal)?,
            client_ca: Authority::open(layout, "client-ca", renewal)?,
            etcd_ca: Authority::open(layout, "etcd-ca", renewal)?,
            accounts: KeyPair::from_pem(&String::from_utf8_lossy(&accounts)).map_err(failed)?,
            encryption: layout.write_once("authority/encryption.json", 0o600, encryption)?,
        })
    }
}

fn kubeconfig<'a>(shared: &'a Shared, file: String, member: &Member, user: Wanted) -> Kubeconfig<'a> {
    let Shared { server_ca, client_ca, .. } = shared;
    Kubeconfig { file, server: member.api_url(), server_ca, client_ca, user }
}

/// One host's directory. No key of a CA is in it.
fn lay_out_member(
    layout: &mut Layout,
    settings: &Settings,
    shared: &Shared,
    member: &Member,
    renewal: Renewal,
) -> Result<(), InitError> {
    let dir = format!("members/{}", member.name);
    let file = |name: &str| format!("{dir}/{name}");
    for (name, ca) in
        [("server-ca.crt", &shared.server_ca), ("client-ca.crt", &shared.client_ca), ("etcd-ca.crt", &shared.etcd_ca)]
    {
        layout.write(&file(&format!("pki/{name}")), ca.pem(), 0o644)?;
    }
    layout.write(&file("pki/accounts.key"), shared.accounts.serialize_pem().as_bytes(), 0o600)?;
    layout.write(&file("pki/accounts.pub"), shared.accounts.public_key_pem().as_bytes(), 0o644)?;
    shared.server_ca.have(
        layout,
        &file("pki/kube-apiserver.pem"),
        &apiserver_certificate(settings, member),
        renewal,
    )?;
    shared.etcd_ca.have(layout, &file("pki/etcd.pem"), &etcd_certificate(member), renewal)?;
    let etcd_client = Wanted::client(&format!("kube-apiserver-{}", member.name), None);
    shared.etcd_ca.have(layout, &file("pki/etcd-client.pem"), &etcd_client, renewal)?;
    layout.write(&file("config/encryption.json"), &shared.encryption, 0o600)?;
    layout.write(&file("config/audit-policy.json"), audit_policy().as_bytes(), 0o600)?;
    layout.directory(&file("audit"))?;
    layout.directory(&file("run"))?;
    layout.directory(&file("etcd"))?;
    let host_dir = settings.host_dir.clone().unwrap_or_else(|| layout.path(&dir));
    for program in [etcd(settings, member), kube_apiserver(settings, member)] {
        layout.write(&file(&format!("start/{}", program.name)), program.script().as_bytes(), 0o700)?;
        let unit = format!("systemd/portcullis-{}.service", program.name);
        layout.write(&file(&unit), program.unit(&host_dir).as_bytes(), 0o644)?;
    }
    let user = Wanted::client(CONTROL_PLANE_USER, None);
    kubeconfig(shared, file("control-plane.kubeconfig"), member, user).write(layout, renewal)
}

/// The operator adds issuers of tokens here, and kube-apiserver reads it when it changes. One that has nothing of the operator's
/// follows the release; where that is not known it stays.
fn write_authentication(layout: &mut Layout, name: &str, release: Option<Release>) -> Result<(), InitError> {
    let wanted = authentication(release.unwrap_or(Release::NEWEST)).into_bytes();
    let kept = layout.write_once(name, 0o600, || Ok(wanted.clone()))?;
    let is_ours = Release::ALL.iter().any(|one| authentication(*one).as_bytes() == kept);
    if is_ours && release.is_some() { layout.write(name, &wanted, 0o600) } else { Ok(()) }
}

fn apiserver_certificate(settings: &Settings, member: &Member) -> Wanted {
    Wanted {
        common_name: "kube-apiserver".to_owned(),
        organization: None,
        names: names(member, settings.server_names.iter().map(String::as_str).chain(["kubernetes.default.svc"])),
        usages: &[ExtendedKeyUsagePurpose::ServerAuth],
    }
}

/// Of a server, and of a client of the other members.
fn etcd_certificate(member: &Member) -> Wanted {
    Wanted {
        common_name: format!("etcd-{}", member.name),
        organization: None,
        names: names(member, []),
        usages: &[ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
    }
}

fn names<'a>(member: &'a Member, more: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let own = ["localhost", "127.0.0.1", member.host.as_str()];
    let mut names: Vec<String> = own.into_iter().chain(more).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

//! `portcullis onboard`: everything that puts a cluster behind the gateway, and what the gateway needs there, asked.
//!
//! - [`arguments`], [`error`]: the command line, and the steps that can fail.
//! - [`cluster_api`]: a Kubernetes API in JSON.
//! - [`target`]: the cluster; [`certificate`], [`token`] and [`credential`]: the gateway's credential for it.
//! - [`object`]: the UpstreamCluster and what it refers to; [`store`] and [`directory`]: its destinations.
//! - [`probe`]: the questions as the gateway; [`progress`]: the lines about the steps.

mod arguments;
mod certificate;
mod cluster_api;
mod credential;
mod directory;
mod error;
mod object;
mod probe;
mod progress;
mod store;
mod target;
mod token;

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use portcullis_api::{Cluster, SecretBytes};
use portcullis_sources::{Input, Root, read_inputs, read_references};
use serde_json::Value;

pub(crate) use arguments::{Onboard, StoreArguments, TargetArguments, host_name};
pub(crate) use certificate::selector;
pub(crate) use cluster_api::{ClusterApi, MANAGED_BY, MANAGER, collection, object_path};
pub(crate) use directory::{manifest, references};
pub(crate) use error::OnboardError;
pub(crate) use object::file_names;
pub(crate) use probe::{TokenKeysError, read_token_keys};
pub(crate) use progress::say;
pub(crate) use store::{StoreCluster, foreign_managers, secret_data};
pub(crate) use target::TargetCluster;

use arguments::IdentityMode;
use cluster_api::Apply;
use directory::read_file;
use object::{Credential, DEFAULT_USER, Pair, Plan, ReferenceForm};
use probe::{ForwardedUser, ProbeUsers};
use progress::say_outcome;

use crate::arguments::ManifestOutput;
use crate::rbac::gateway_manifests;
use crate::runtime::{Threads, runtime};

/// The place for the outcome.
enum Destination<'a> {
    Store(Box<StoreCluster>),
    Directory(&'a Path),
    Print(ManifestOutput),
}

pub(crate) fn run(arguments: &Onboard) -> ExitCode {
    if let Err(status) = arguments.check_usage() {
        return status;
    }
    let outcome = runtime(Threads::Current).map_err(OnboardError::from).and_then(|runtime| {
        runtime.block_on(async {
            match arguments.probe.check {
                true => check_existing(arguments).await,
                false => onboard(arguments).await,
            }
        })
    });
    match outcome {
        Ok(status) => status,
        Err(error) => fail_with_advice(&error),
    }
}

/// Prints an error, and who has to act.
pub(crate) fn fail_with_advice(error: &OnboardError) -> ExitCode {
    let status = crate::fail(error);
    if let Some(advice) = error.advice() {
        crate::complain("hint", &advice);
    }
    status
}

async fn onboard(arguments: &Onboard) -> Result<ExitCode, OnboardError> {
    let destination = open_destination(arguments).await?;
    let target = TargetCluster::open(&arguments.target).await?;
    let caller = target.caller().await?;
    let given = credential::from_files(&arguments.credential)?;
    let plan = plan(arguments, &target, &destination, given.as_ref()).await?;
    let how = Apply { dry_run: arguments.dry_run, force: arguments.force_conflicts };
    rehearse(arguments, &plan, &destination, given.as_ref()).await?;
    apply_rights(&target, &plan, &destination, how).await?;
    if arguments.dry_run {
        return say_rest(&plan, arguments, &destination).await;
    }
    let credential = match given {
        Some(credential) => credential,
        None => {
            let earlier = earlier(&destination, &plan.name, "client").await?;
            let earlier = earlier.map(|(certificate, key)| Credential::Pair { certificate, key });
            credential::obtain(&target, &plan, &arguments.credential, earlier).await?
        }
    };
    let cluster = plan.checked(&credential)?;
    write(arguments, &plan, &credential, &destination).await?;
    // There may be more in it than was applied.
    let cluster = match &destination {
        Destination::Store(store) => {
            let (document, data) = store.read(&plan.name).await?;
            object::checked(&plan.name, &document, &data)?
        }
        Destination::Directory(_) | Destination::Print(_) => cluster,
    };
    let users = ProbeUsers { anybody: arguments.probe.probe_user.clone(), caller };
    Ok(report(&cluster, &users, matches!(destination, Destination::Print(_))).await)
}

async fn open_destination(arguments: &Onboard) -> Result<Destination<'_>, OnboardError> {
    match (&arguments.output_dir, arguments.output) {
        (Some(dir), _) => Ok(Destination::Directory(dir)),
        (None, Some(_)) if std::io::stdout().is_terminal() && !arguments.dry_run => Err(OnboardError::Terminal),
        (None, Some(output)) => Ok(Destination::Print(output)),
        (None, None) => Ok(Destination::Store(Box::new(StoreCluster::open(&arguments.store).await?))),
    }
}

/// Everything but the credential.
async fn plan(
    arguments: &Onboard,
    target: &TargetCluster,
    destination: &Destination<'_>,
    given: Option<&Credential>,
) -> Result<Plan, OnboardError> {
    let mode = arguments.credential.upstream_identity.unwrap_or(IdentityMode::Impersonate);
    if mode == IdentityMode::RequestHeader && !matches!(given, Some(Credential::Pair { .. })) {
        return Err(OnboardError::NoFrontProxy);
    }
    if let Destination::Store(store) = destination
        && let Some(object) = store.existing(&arguments.name).await?
    {
        let present = object.pointer("/spec/portcullis/upstreamIdentity").and_then(Value::as_str);
        let present = present.filter(|mode| !mode.is_empty()).unwrap_or(IdentityMode::Impersonate.as_str());
        if present != mode.as_str() && arguments.credential.upstream_identity.is_none() {
            return Err(OnboardError::OtherIdentity(arguments.name.clone(), present.to_owned()));
        }
    }
    let client_authorities = match &arguments.client_ca {
        Some(path) => Some(read_file(path)?),
        None => target.client_authorities().await?,
    };
    if client_authorities.is_none() {
        say("CAs of users: the cluster publishes none, so the gateway's default is used (--client-ca)");
    }
    let serving = match arguments.serving_cert.as_ref().zip(arguments.serving_key.as_ref()) {
        Some((certificate, key)) => Some((read_file(certificate)?, SecretBytes::new(read_file(key)?))),
        None => earlier(destination, &arguments.name, "serving").await?,
    };
    if serving.is_none() {
        say("serving certificate: none is given, so the gateway's default is used (--serving-cert)");
    }
    let servers = target.servers(&arguments.servers).await?;
    let name = arguments.name.clone();
    let mut plan = Plan { name, mode, user: DEFAULT_USER.to_owned(), servers, client_authorities, serving };
    plan.user = credential::user_of(&plan, &arguments.credential, given).await?;
    say(&format!("servers: {}, certificates for {}", plan.servers.servers.join(", "), plan.servers.name));
    Ok(plan)
}

/// Finds what would prevent writing, before a certificate is requested for it.
async fn rehearse(
    arguments: &Onboard,
    plan: &Plan,
    destination: &Destination<'_>,
    given: Option<&Credential>,
) -> Result<(), OnboardError> {
    let empty = match arguments.credential.token {
        true => Credential::Token(SecretBytes::default()),
        false => Credential::Pair { certificate: Vec::new(), key: SecretBytes::default() },
    };
    let parts = plan.parts(given.unwrap_or(&empty));
    let any = Credential::Token(SecretBytes::new(b"none".to_vec()));
    plan.checked(given.unwrap_or(&any))?;
    match destination {
        Destination::Store(store) => store.rehearse(plan, &parts, arguments.force_conflicts).await,
        Destination::Directory(dir) => directory::manifest_text(dir, plan, &parts, arguments.force_conflicts).map(drop),
        Destination::Print(_) => Ok(()),
    }
}

/// Applies what `portcullis rbac` prints for the object.
async fn apply_rights(
    target: &TargetCluster,
    plan: &Plan,
    destination: &Destination<'_>,
    how: Apply,
) -> Result<(), OnboardError> {
    let stored = match destination {
        Destination::Store(store) => store.existing(&plan.name).await?.map(store::document),
        Destination::Directory(_) | Destination::Print(_) => None,
    };
    let manifests = gateway_manifests(&[plan.unchecked(stored)?], &plan.user)?;
    if let Some(other) = target.bound_user().await?.filter(|bound| *bound != plan.user && !how.force) {
        return Err(OnboardError::OtherUser(crate::rbac::NAME, other, plan.user.clone()));
    }
    for manifest in manifests {
        let changed = target.apply(&manifest, how).await?;
        let kind = manifest.get("kind").and_then(Value::as_str).unwrap_or_default();
        say_outcome(&format!("{kind} {} for {}", crate::rbac::NAME, plan.user), changed, how.dry_run);
    }
    Ok(())
}

/// A certificate and its key of an earlier run: `client` or `serving`.
async fn earlier(destination: &Destination<'_>, name: &str, usage: &str) -> Result<Option<Pair>, OnboardError> {
    match destination {
        Destination::Store(store) => store.pair(name, usage).await,
        Destination::Directory(dir) => Ok(directory::pair(dir, name, usage)),
        Destination::Print(_) => Ok(None),
    }
}

async fn write(
    arguments: &Onboard,
    plan: &Plan,
    credential: &Credential,
    destination: &Destination<'_>,
) -> Result<(), OnboardError> {
    let force = arguments.force_conflicts;
    let parts = plan.parts(credential);
    match destination {
        Destination::Store(store) => store.write(plan, &parts, force).await,
        Destination::Directory(dir) => directory::write(dir, plan, &parts, force),
        Destination::Print(output) => {
            let namespace = &arguments.store.namespace;
            let mut objects: Vec<Value> = parts.iter().map(|part| part.secret(&plan.name, namespace)).collect();
            objects.push(plan.document(&parts, ReferenceForm::Secrets, true));
            crate::print(&output.list(&objects)?);
            Ok(())
        }
    }
}

/// The part of a dry run that would need a credential.
async fn say_rest(plan: &Plan, arguments: &Onboard, destination: &Destination<'_>) -> Result<ExitCode, OnboardError> {
    let credential = match () {
        () if arguments.credential.client_cert.is_some() || arguments.credential.token_file.is_some() => {
            "credential: the given files".to_owned()
        }
        () if arguments.credential.token => format!("token of {}: would be requested", plan.user),
        () if earlier(destination, &plan.name, "client").await?.is_some() && !arguments.credential.renew => {
            format!("certificate of {}: the present one, if it is good", plan.user)
        }
        () => format!("certificate of {}: would be requested", plan.user),
    };
    say(&credential);
    let kinds = plan.parts(&Credential::Token(SecretBytes::default()));
    let place = match destination {
        Destination::Store(_) => "in the store",
        Destination::Directory(_) => "in files",
        Destination::Print(_) => "on standard output",
    };
    say(&format!("{} Secrets or files, and UpstreamCluster {}: would be written {place}", kinds.len(), plan.name));
    say("nothing was changed, and the checks need a credential: they are left out");
    Ok(ExitCode::SUCCESS)
}

/// Asks the servers of an object that exists.
async fn check_existing(arguments: &Onboard) -> Result<ExitCode, OnboardError> {
    let name = &arguments.name;
    let (document, data) = if arguments.probe.files.is_empty() {
        StoreCluster::open(&arguments.store).await?.read(name).await?
    } else {
        read_files(arguments)?
    };
    let cluster = object::checked(name, &document, &data)?;
    let is_target_given = arguments.target.kubeconfig.is_some() || arguments.target.context.is_some();
    let caller: Option<ForwardedUser> = match is_target_given {
        true => TargetCluster::open(&arguments.target).await?.caller().await?,
        false => None,
    };
    let users = ProbeUsers { anybody: arguments.probe.probe_user.clone(), caller };
    Ok(report(&cluster, &users, false).await)
}

fn read_files(arguments: &Onboard) -> Result<(Arc<Value>, portcullis_api::ReferencedData), OnboardError> {
    let inputs: Vec<Input> = arguments.probe.files.iter().map(|path| Input::Path(path.clone())).collect();
    let mut set = read_inputs(&inputs).map_err(crate::read_manifests::ManifestError::from)?;
    if let Some(root) = &arguments.probe.references_root {
        read_references(&mut set, &Root::new(root));
    }
    let is_wanted = |document: &&Arc<Value>| {
        document.pointer("/metadata/name").and_then(Value::as_str) == Some(arguments.name.as_str())
    };
    let found = set.clusters.iter().find(is_wanted).cloned();
    let lacks = || {
        crate::read_manifests::ManifestError::File(format!("no UpstreamCluster {} is among the files", arguments.name))
    };
    Ok((found.ok_or_else(lacks)?, set.referenced_data))
}

/// Asks as the gateway, and prints the lines.
async fn report(cluster: &Cluster, users: &ProbeUsers, beside_objects: bool) -> ExitCode {
    let report = probe::probe(cluster, users).await;
    let text = report.text();
    if beside_objects {
        let _ = std::io::stderr().write_all(text.as_bytes());
    } else {
        crate::print(&text);
    }
    if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

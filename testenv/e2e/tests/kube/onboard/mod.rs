//! `portcullis onboard` and `offboard`, and the plugin of kubectl.
//!
//! No controller manager runs here: the test is the signer of CertificateSigningRequests, through the API.

mod approval;
mod checks;
mod fixture;
mod plugin;
mod repeat;
mod serving;

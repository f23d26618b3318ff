//! A deployment as a configuration file has it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de};

use super::route::Deployment;
use crate::policy::AdmissionPolicy;
use crate::reading::Profile;

/// The keys of a deployment. A credential is not among them: it belongs in no file, and is set in code.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    url: String,
    azure_deployment: Option<String>,
    openai_model: Option<String>,
    model: Option<String>,
    #[serde(default)]
    query: BTreeMap<String, String>,
    #[serde(default)]
    remove_query: Vec<String>,
    #[serde(default)]
    forward_query: Vec<String>,
    #[serde(default)]
    remove_headers: Vec<String>,
    #[serde(default)]
    forward_headers: Vec<String>,
    weight: Option<u32>,
    budget_share: Option<f64>,
    policy: Option<AdmissionPolicy>,
    profile: Option<String>,
}

/// Reads `name` and `url`, and if wanted `azure_deployment` (as [`Deployment::azure_openai`]), `openai_model` (as
/// [`Deployment::openai_compatible`]), `model`, `query` (a table), `remove_query`, `forward_query`, `remove_headers`,
/// `forward_headers`, `weight`, `budget_share`, `policy`, and `profile`, the name of a built-in one. A credential is set in
/// code, with [`Deployment::credential`], [`bearer`](Deployment::bearer) or [`api_key`](Deployment::api_key).
///
/// ```
/// use reqwest_admission::Deployment;
///
/// let standby: Deployment = toml::from_str(r#"
///     name = "standby"
///     url = "https://standby.openai.azure.com"
///     azure_deployment = "gpt-standard"
///     budget_share = 0.5
/// "#)?;
/// let standby = standby.api_key("its key, from the environment");
/// # Ok::<(), toml::de::Error>(())
/// ```
impl<'de> Deserialize<'de> for Deployment {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(from)?;
        let (name, url) = (written.name.as_str(), written.url.as_str());
        let mut deployment = match (&written.azure_deployment, &written.openai_model) {
            (None, None) => Self::new(name, url),
            (Some(azure), None) => Self::azure_openai(name, url, azure),
            (None, Some(model)) => Self::openai_compatible(name, url, model),
            (Some(_), Some(_)) => {
                return Err(de::Error::custom("azure_deployment and openai_model are set: keep one of them"));
            }
        };
        if let Some(profile) = &written.profile {
            let known = Profile::named(profile);
            if known.name() != profile {
                return Err(de::Error::custom(format_args!(
                    "profile is {profile:?}, allowed is the name of a built-in profile"
                )));
            }
            deployment = deployment.profile(known.clone());
        }
        for (name, value) in &written.query {
            deployment = deployment.query(name, value);
        }
        deployment = written.remove_query.iter().fold(deployment, |to, name| to.remove_query(name));
        deployment = written.forward_query.iter().fold(deployment, |to, name| to.forward_query(name));
        deployment = written.remove_headers.iter().fold(deployment, |to, name| to.remove_header(name));
        deployment = written.forward_headers.iter().fold(deployment, |to, name| to.forward_header(name));
        if let Some(model) = &written.model {
            deployment = deployment.model(model);
        }
        if let Some(weight) = written.weight {
            deployment = deployment.weight(weight);
        }
        if let Some(share) = written.budget_share {
            deployment = deployment.budget_share(share);
        }
        if let Some(policy) = written.policy {
            deployment = deployment.policy(policy);
        }
        Ok(deployment)
    }
}

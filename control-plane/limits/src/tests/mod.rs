mod long_reports;
mod lost;
mod model;
mod rules;
mod simulation;
mod state;

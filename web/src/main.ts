import { mount } from 'svelte';
import './style/base.css';
import './style/frame.css';
import './style/chat.css';
import './style/parts.css';
import './style/cluster.css';
import './style/requests.css';
import './style/history.css';
import './style/what_if.css';
import App from './App.svelte';
import { app } from './lib/app.svelte';

app.start();
mount(App, { target: document.body });

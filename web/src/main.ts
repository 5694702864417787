import { mount } from 'svelte';
import './style/base.css';
import './style/frame.css';
import './style/chat.css';
import './style/cluster.css';
import App from './App.svelte';
import { app } from './lib/app.svelte';

app.start();
mount(App, { target: document.body });
